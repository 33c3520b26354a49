"""`millstream backup`, `restore`, `check`, `export` and `import`: a database's file as a whole."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from millstream.backup.backup import back_up
from millstream.backup.check import Checked, check_backup, check_database, put_state_aside
from millstream.backup.restore import restore
from millstream.backup.topics import export_topic, import_topic
from millstream.log.embedded import EmbeddedLog
from millstream.model.clock import now_ms
from millstream.model.errors import MillstreamError, StatementError
from millstream.model.iso_times import iso_timestamp
from millstream.places.place import is_place
from millstream_cli.screen.output import Output
from millstream_cli.screen.show import show_error

COMMANDS = ("backup", "restore", "check", "export", "import")
_PLACE = "a folder, or a URL such as s3://bucket/shop"


def storage_command(name: str, arguments: Sequence[str]) -> int:
    """Run one of `COMMANDS`; returns the exit code: 1 if it failed, or found damage."""
    options = _parser(name).parse_args(arguments)
    errors = Output(Console(stderr=True, soft_wrap=True))
    out = Output(Console(soft_wrap=True))
    try:
        return _RUN[name](options, out)
    except MillstreamError as error:
        show_error(error, errors)
        return 1


def _parser(name: str) -> argparse.ArgumentParser:
    about = {
        "backup": "Back up a database that no process has open. One that is open is backed up from"
        " there: BACKUP TO '…', or db.backup(…) in Python.",
        "restore": "Make a database of a backup.",
        "check": "Read every byte of a database, or of its newest backup; tell what is damaged.",
        "export": "Write the records of a topic to a Parquet file.",
        "import": "Append the records of a Parquet file to a topic.",
    }
    parser = argparse.ArgumentParser(prog=f"millstream {name}", description=about[name])
    if name == "restore":
        parser.add_argument("place", help=f"where the backups are: {_PLACE}")
    parser.add_argument("file", help="the database's file" + (" or URL" if name == "check" else ""))
    match name:
        case "backup":
            parser.add_argument("place", help=_PLACE)
            parser.add_argument("--keep", type=int, metavar="N", help="drop all but N backups")
        case "restore":
            parser.add_argument(
                "--at", type=_time, metavar="TIME",
                help="the newest one until then, as 2026-11-29T12:00:00 (UTC) or in ms",
            )  # fmt: skip
        case "check":
            parser.add_argument(
                "--repair", action="store_true",
                help="put a damaged state aside; it is rebuilt from the log",
            )  # fmt: skip
        case _:
            parser.add_argument("topic")
            parser.add_argument("parquet", help="the Parquet file")
    if name == "import":
        parser.add_argument("--partitions", type=int, metavar="N", help="of a topic that is new")
    return parser


def _time(text: str) -> int:
    if text.isdecimal():
        return int(text)
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no time") from error
    return int((found if found.tzinfo else found.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def _opened(file: str) -> EmbeddedLog:
    if not Path(file).is_file():
        raise StatementError(f"There is no file '{file}'.", code="E-NO-FILE")
    return EmbeddedLog.open(file, compacting=False)


def _backup(options: argparse.Namespace, out: Output) -> int:
    log = _opened(options.file)
    try:
        done = back_up(log, options.place, now_ms, options.keep)
    finally:
        log.close()
    out.line(str(done))
    return 0


def _restore(options: argparse.Namespace, out: Output) -> int:
    made = restore(options.place, options.file, options.at)
    topics = len(made.contents.topics)
    out.line(f"{options.file}: {topics} topics as of {iso_timestamp(made.taken * 1000)}")
    return 0


def _check(options: argparse.Namespace, out: Output) -> int:
    place = is_place(options.file)
    checked = check_backup(options.file) if place else check_database(options.file)
    for damage in (*checked.log, *checked.state):
        out.line(str(damage), "bold red")
    out.line(f"{checked.records} records of {checked.topics} topics: {_verdict(checked, place)}")
    if checked.state and options.repair:
        put_state_aside(options.file)
        out.line("The state was put aside; it is rebuilt when the database is opened.")
        return 1 if checked.log else 0
    return 0 if checked.well else 1


def _verdict(checked: Checked, place: bool) -> str:
    if checked.well:
        return "all is well."
    if place:
        return "the backup is damaged. Restore an earlier one with --at, and take a new one."
    if not checked.log:
        return "the log is well, the state is damaged; --repair has it rebuilt."
    return "the log is damaged. Restore a backup, or export the topics that are well."


def _export(options: argparse.Namespace, out: Output) -> int:
    log = _opened(options.file)
    try:
        count = export_topic(log, options.topic, options.parquet)
    finally:
        log.close()
    out.line(f"{count} records written to {options.parquet}")
    return 0


def _import(options: argparse.Namespace, out: Output) -> int:
    log = EmbeddedLog.open(options.file, compacting=False)
    try:
        count = import_topic(log, options.topic, options.parquet, options.partitions)
    finally:
        log.close()
    out.line(f"{count} records appended to topic {options.topic}")
    return 0


_RUN: dict[str, Callable[[argparse.Namespace, Output], int]] = {
    "backup": _backup,
    "restore": _restore,
    "check": _check,
    "export": _export,
    "import": _import,
}

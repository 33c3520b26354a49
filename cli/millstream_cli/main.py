"""Options of the `millstream` command.

Exit codes: 0 all statements succeeded, 1 one failed, 2 the options were wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading

from rich.console import Console

import millstream
from millstream.model.errors import MillstreamError
from millstream.model.settings import InstanceSettings
from millstream.service.database import Database
from millstream.service.text import read_text
from millstream_cli.render import FORMATS, Look, show, show_error
from millstream_cli.serving import add_server_options, start_server
from millstream_cli.shell import run_shell


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    options = _options().parse_args(arguments)
    if options.command == "server":
        return start_server(options, Console(stderr=True, soft_wrap=True))
    console = Console(soft_wrap=options.output == "JSON")
    errors = Console(stderr=True, soft_wrap=True)
    try:
        database = millstream.connect(
            options.database,
            kafka=options.kafka,
            service_id=options.service_id,
            kafka_settings=dict(options.kafka_setting),
            sharing=_sharing(options),
            queries_file=options.queries_file,
        )
    except MillstreamError as error:
        show_error(error, errors)
        return 1
    with database:
        for name, value in options.define:
            database.session.variables[name] = value
        try:
            text = _script(options)
        except MillstreamError as error:
            show_error(error, errors)
            return 1
        if text:
            return run_text(database, text, console, errors, options.output)
        if options.queries_file is not None:
            return _serve(console)
        if options.command is None and sys.stdin.isatty():
            return run_shell(database, console, options.output)
        return run_text(database, sys.stdin.read(), console, errors, options.output)


def run_text(database: Database, text: str, console: Console, errors: Console, form: str) -> int:
    """Execute a script statement by statement, printing each result; stops at the first error."""
    try:
        for result in database.each(text):
            show(result, console, Look(form))
    except MillstreamError as error:
        show_error(error, errors)
        return 1
    except KeyboardInterrupt:
        console.print("Query terminated")
    return 0


def _serve(console: Console) -> int:
    """Let the queries run until Ctrl-C."""
    console.print("The queries run. Ctrl-C ends them.")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        console.print("Stopped.")
    return 0


def _script(options: argparse.Namespace) -> str:
    """The SQL given by options, "" for none; StatementError when the file cannot be read."""
    if options.execute is not None:
        text: str = options.execute
        return text if text.rstrip().endswith(";") else text + ";"
    if options.command == "run":
        return read_text(options.file, "script")
    return ""


def _definition(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"expected name=value, got '{text}'")
    return name.strip().upper(), value


def _setting(text: str) -> tuple[str, str]:
    """The text is not repeated in the error: it may be a password."""
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError("expected name=value")
    return name.strip(), value


def _sharing(options: argparse.Namespace) -> InstanceSettings | None:
    if options.kafka is None:
        return None
    return InstanceSettings(
        instance_id=options.instance_id,
        group_protocol=options.group_protocol,
        session_timeout_ms=options.session_timeout,
        standby_replicas=options.standby_replicas,
        listen=options.listen,
        advertised=options.advertised,
        token=os.environ.get("MILLSTREAM_TOKEN", ""),
    )


def _sharing_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "several instances of one service, with --kafka",
        "They share the queries. MILLSTREAM_TOKEN is the secret by which those on other machines"
        " know each other.",
    )
    default = InstanceSettings()
    group.add_argument(
        "--instance-id", default=default.instance_id, metavar="NAME",
        help="a name kept over restarts; one that is soon back has its tasks as before",
    )  # fmt: skip
    group.add_argument(
        "--standby-replicas", type=int, default=default.standby_replicas, metavar="N",
        help="how many other instances keep a copy of each task's state (default: 0)",
    )  # fmt: skip
    group.add_argument(
        "--session-timeout", type=int, default=default.session_timeout_ms, metavar="MS",
        help="how long an instance may be silent before others take over (default: 10000)",
    )  # fmt: skip
    group.add_argument(
        "--group-protocol", choices=("classic", "consumer"), default=default.group_protocol,
        help="how Kafka shares out the tasks; the same for all instances (default: classic)",
    )  # fmt: skip
    group.add_argument(
        "--listen", default=default.listen, metavar="HOST:PORT",
        help="where to answer pull queries for the others (default: a free port of this machine)",
    )  # fmt: skip
    group.add_argument(
        "--advertised", default=default.advertised, metavar="HOST:PORT",
        help="where the others find that, if it is another address",
    )  # fmt: skip


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millstream", description="A streaming database: ksqlDB's SQL over one local file."
    )
    parser.add_argument(
        "--database", default=":memory:", metavar="FILE", help="the file (default: in memory)"
    )
    parser.add_argument(
        "--kafka", metavar="HOST:PORT",
        help="keep the records in this Kafka cluster, and only the state in the file",
    )  # fmt: skip
    parser.add_argument(
        "--service-id", default="default", metavar="ID",
        help="with --kafka: whose streams, tables and queries these are (default: default)",
    )  # fmt: skip
    parser.add_argument(
        "--kafka-setting", action="append", default=[], type=_setting, metavar="NAME=VALUE",
        help="with --kafka: a setting of the Kafka client, as security.protocol=ssl;"
        " may be repeated",
    )  # fmt: skip
    _sharing_options(parser)
    parser.add_argument(
        "--queries-file", metavar="FILE.sql",
        help="take all streams, tables and queries from this file and run them",
    )  # fmt: skip
    parser.add_argument("-e", "--execute", metavar="SQL", help="run statements and exit")
    parser.add_argument("--output", choices=FORMATS, default="TABULAR", type=str.upper)
    parser.add_argument(
        "-d", "--define", action="append", default=[], type=_definition, metavar="NAME=VALUE",
        help="define a variable; may be repeated",
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command")
    run = commands.add_parser("run", help="run a file of statements and exit")
    run.add_argument("file", metavar="FILE.sql")
    add_server_options(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())

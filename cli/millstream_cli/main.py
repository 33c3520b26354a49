"""The `millstream` command: connects, then runs the given statements or an interactive shell.

Exit codes: 0 all statements succeeded, 1 one failed, 2 the options were wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

import millstream
from millstream.model.errors import MillstreamError, StatementError
from millstream.model.listener import InternalListener
from millstream.model.settings import InstanceSettings
from millstream.scripts.text import read_script
from millstream.service.functions_folder import load_functions
from millstream_cli import storage
from millstream_cli.datagen.command import datagen_command
from millstream_cli.datagen.demo import demo_command
from millstream_cli.doctor.command import doctor_command
from millstream_cli.migrations.command import migrations_command
from millstream_cli.options import check_credentials, parser, password_of, registry_settings
from millstream_cli.pipeline import pipeline_command
from millstream_cli.prompt.binary import BINARY_FORMS, write_result
from millstream_cli.prompt.shell import run_parts, run_shell
from millstream_cli.prompt.terminal import Terminal
from millstream_cli.screen.output import Output
from millstream_cli.screen.show import show_error
from millstream_cli.screen.tables import TableStyle
from millstream_cli.serving import server_command
from millstream_cli.sessions.config import Config, read_config
from millstream_cli.sessions.local import LocalSession
from millstream_cli.sessions.results import Session
from millstream_cli.sql_files.formatting import format_command
from millstream_cli.sql_files.linting import lint_command
from millstream_cli.testing.command import run_test_command

_COMMANDS: Mapping[str, Callable[[Sequence[str]], int]] = {
    "server": server_command,
    "pipeline": pipeline_command,
    "test": run_test_command,
    "doctor": doctor_command,
    "datagen": datagen_command,
    "demo": demo_command,
    "migrations": migrations_command,
    "format": format_command,
    "lint": lint_command,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] and words[0] in _COMMANDS:
        return _COMMANDS[words[0]](words[1:])
    if words[:1] and words[0] in storage.COMMANDS:
        return storage.storage_command(words[0], words[1:])
    options = _checked(words)
    errors = Output(Console(stderr=True))
    try:
        text = _script(options)
        session = _session(options)
    except MillstreamError as error:
        show_error(error, errors)
        return 1
    look = TableStyle(
        options.output, row_limit=options.query_row_limit, timeout_ms=options.query_timeout
    )
    out = Output(Console())
    terminal = Terminal(session, out, errors, look, vi=options.vi)
    try:
        for name, value in options.define:
            session.define(name, value)
        if options.output in BINARY_FORMS:
            return _write(session, text, options.output, errors)
        if text is not None:
            return 0 if run_parts(terminal, text) else 1
        if options.queries_file is not None:
            return _serve(out)
        if not sys.stdin.isatty():
            return 0 if run_parts(terminal, sys.stdin.read()) else 1
        terminal.errors = out
        terminal.look = replace(look, pager=True)
        terminal.connect = lambda url: _remote(url, options)
        return run_shell(terminal, options.history_file)
    finally:
        terminal.session.close()


def _write(session: Session, text: str | None, form: str, errors: Output) -> int:
    """Write the result of a script as bytes."""
    try:
        if text is None and not sys.stdin.isatty():
            text = sys.stdin.read()
        if text is None or sys.stdout.isatty():
            raise StatementError(
                f"{form} is not for a screen.",
                hint=f'Write to a file: --execute "SELECT …" --output {form} > result',
            )
        write_result(session.database, text, form, sys.stdout.buffer)
    except BrokenPipeError:
        # Its reader has read enough. What is left in the buffer goes nowhere at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except MillstreamError as error:
        show_error(error, errors)
        return 1
    return 0


def _checked(arguments: list[str]) -> argparse.Namespace:
    """The options; the positional arguments set `url`, `file` and `database`."""
    reader = parser()
    options = reader.parse_args(arguments)
    options.url = None
    match options.target:
        case []:
            pass
        case ["run", file]:
            options.file = file
        case [url] if "://" in url:
            options.url = url.split(",")[0]
        case [name]:
            options.database = _database(name, options, reader)
        case _:
            reader.error(
                "expected a database's file, a URL, or run and a file, got "
                + " ".join(options.target)
            )
    check_credentials(reader, options)
    if options.url is not None and options.functions:
        reader.error("--functions is for a database in this process; a server has its own ones")
    return options


def _database(name: str, options: argparse.Namespace, reader: argparse.ArgumentParser) -> str:
    """The file to open, by its name alone. Whatever could be meant to be something else makes no
    new file."""
    if options.database != ":memory:":
        reader.error(f"two databases are given: {options.database} and {name}")
    if name.lower().endswith(".sql"):
        reader.error(f"{name} is not a database; to run its statements: millstream run {name}")
    file = Path(name)
    if not file.exists():
        if ":" in name:
            reader.error(f"a server's address begins with http:// or https://: http://{name}")
        if not file.suffix:
            reader.error(
                f"there is no file {name}; a new database is made with a suffix, as {name}.db"
            )
    return name


def _session(options: argparse.Namespace) -> Session:
    if options.url is not None:
        return _remote(options.url, options)
    return _local(options, read_config(options.config_file))


def _remote(url: str, options: argparse.Namespace) -> Session:
    # Only a session with a server needs the HTTP client, which takes long to import.
    from millstream.remote.http import Credentials
    from millstream_cli.sessions.remote import RemoteSession

    config = read_config(options.config_file)
    credentials = Credentials(options.user, password_of(options), options.token)
    return RemoteSession.connect(url, credentials, config)


def _local(options: argparse.Namespace, config: Config) -> LocalSession:
    database = millstream.connect(
        options.database,
        kafka=options.kafka,
        service_id=options.service_id,
        kafka_settings={
            **(config.connection if options.kafka else {}),
            **dict(options.kafka_setting),
        },
        sharing=_sharing(options),
        schema_registry=registry_settings(options, config.registry),
        properties=config.properties,
        functions=load_functions(options.functions, "--functions"),
        queries_file=options.queries_file,
    )
    where = options.database if options.database != ":memory:" else "in memory"
    return LocalSession(database, f"kafka {options.kafka}" if options.kafka else where)


def _serve(out: Output) -> int:
    """Let the queries run until Ctrl-C."""
    out.line("The queries run. Ctrl-C ends them.")
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        out.line("Stopped.")
    return 0


def _script(options: argparse.Namespace) -> str | None:
    """The SQL given by options, None without any; raises StatementError when the file cannot be
    read."""
    if options.execute is not None:
        text: str = options.execute
        return text if text.rstrip().endswith(";") else text + ";"
    return None if options.file is None else read_script(options.file)


def _sharing(options: argparse.Namespace) -> InstanceSettings | None:
    if options.kafka is None:
        return None
    return InstanceSettings(
        instance_id=options.instance_id,
        group_protocol=options.group_protocol,
        session_timeout_ms=options.session_timeout,
        standby_replicas=options.standby_replicas,
        listener=InternalListener(
            options.listen, options.advertised, token=os.environ.get("MILLSTREAM_TOKEN", "")
        ),
    )


if __name__ == "__main__":
    sys.exit(main())

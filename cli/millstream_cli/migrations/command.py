"""`millstream migrations`, as it is typed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

import millstream
from millstream.model.clock import now_ms
from millstream.model.errors import MillstreamError, StatementError
from millstream.model.iso_times import iso_timestamp
from millstream.service.database import Database
from millstream_cli.migrations import files
from millstream_cli.migrations.files import Migration
from millstream_cli.migrations.metadata import (
    CURRENT,
    ERROR,
    MIGRATED,
    NOTHING,
    RUNNING,
    Event,
    Metadata,
    latest_version,
)
from millstream_cli.options import setting
from millstream_cli.screen.output import Output
from millstream_cli.screen.show import show_error
from millstream_cli.screen.tables import TableStyle, table
from millstream_cli.sessions.config import Config, read_config

PENDING = "PENDING"
_HEAD = (
    "Version",
    "Name",
    "State",
    "Previous Version",
    "Started On",
    "Completed On",
    "Error Reason",
)
_SETTINGS = (
    "ksql.server.url",
    "ksql.auth.basic.username",
    "ksql.auth.basic.password",
    "ksql.migrations.stream.name",
    "ksql.migrations.table.name",
    "ksql.migrations.stream.topic.name",
    "ksql.migrations.table.topic.name",
    "ksql.migrations.topic.replicas",
    "ksql.migrations.dir.override",
)
_SETTINGS_HINT = "`millstream migrations new-project <folder> <url or file>` makes a project."


def migrations_command(arguments: Sequence[str]) -> int:
    """Run one action; returns the exit code: 1 if it failed, or if migrations are not valid."""
    options = _parser().parse_args(arguments)
    errors = Output(Console(stderr=True, soft_wrap=True))
    out = Output(Console(soft_wrap=True))
    try:
        return _run(options, out)
    except MillstreamError as error:
        show_error(error, errors)
        return 1
    except OSError as error:
        show_error(StatementError(f"{error.filename}: {error.strerror}"), errors)
        return 1


def _run(options: argparse.Namespace, out: Output) -> int:
    if options.action == "new-project":
        files.new_project(Path(options.folder), options.url)
        out.line(f"Project made at {options.folder}; its settings are in {files.PROPERTIES}")
        return 0
    config = _read(options.config_file)
    folder = _folder(Path(options.config_file), config.properties)
    if options.action == "create":
        out.line(f"Migration {files.create(folder, options.description, options.version)} made")
        return 0
    headers = files.read_headers(options.headers) if getattr(options, "headers", None) else {}
    with _connected(config, headers) as database:
        metadata = Metadata.of(config.properties, "default_")
        match options.action:
            case "initialize-metadata":
                metadata.initialize(database)
                out.line(f"{metadata.stream} and {metadata.table} created")
            case "destroy-metadata":
                metadata.destroy(database)
                out.line(f"{metadata.stream} and {metadata.table} dropped, with their topics")
            case "info":
                _info(files.migrations(folder), metadata.read(database), out)
            case "validate":
                return _validate(files.migrations(folder), metadata.read(database), out)
            case _:
                _apply(options, folder, metadata, database, out)
    return 0


def _apply(
    options: argparse.Namespace,
    folder: Path,
    metadata: Metadata,
    database: Database,
    out: Output,
) -> None:
    known, found = metadata.read(database), files.migrations(folder)
    if wrong := _changed(found, known):
        raise StatementError(
            wrong[0], hint="What was applied may not change: write another migration."
        )
    wanted = _wanted(options, found, known)
    if not wanted:
        out.line("Nothing is to be applied.")
    for migration in wanted:
        out.line(f"Version {migration.version}: {migration.name}")
        statements = migration.statements()
        if options.dry_run:
            out.lines(statements)
            continue
        _migrate(migration, statements, dict(options.define), metadata, database)
        out.line(f"Version {migration.version} migrated")


def _wanted(
    options: argparse.Namespace, found: Sequence[Migration], known: Mapping[str, Event]
) -> list[Migration]:
    """The migrations to apply, in order."""
    last = known.get(CURRENT)
    if last is not None and last.state == RUNNING:
        raise StatementError(
            f"Version {last.version} is being applied, or was broken off.",
            hint="If no other process is applying it, undo what it has done, and insert an event"
            f" of this version with the state {ERROR}.",
        )
    done = latest_version(known)
    after = int(done) if done.isdigit() else 0
    pending = [one for one in found if one.version > after]
    if options.next:
        pending = pending[:1]
    if options.until is not None:
        pending = [one for one in pending if one.version <= options.until]
        _exists(options.until, found)
    if options.version is not None:
        _exists(options.version, found)
        if options.version <= after:
            raise StatementError(f"Version {options.version} is not after {after}, the last one.")
        pending = [one for one in pending if one.version == options.version]
    failed = last.version if last is not None and last.state == ERROR else ""
    if failed and pending and pending[0].version != int(failed):
        raise StatementError(f"Version {failed} has failed: it is the next to be applied.")
    return pending


def _exists(version: int, found: Sequence[Migration]) -> None:
    if all(one.version != version for one in found):
        raise StatementError(f"There is no migration with version {version}.")


def _migrate(
    migration: Migration,
    statements: Sequence[str],
    variables: Mapping[str, str],
    metadata: Metadata,
    database: Database,
) -> None:
    """Execute one file, with settings and variables of its own."""
    started, previous = str(now_ms()), latest_version(metadata.read(database))

    def record(state: str, completed: str = NOTHING, reason: str = NOTHING) -> None:
        metadata.record(
            database,
            Event(
                str(migration.version), migration.name, state, migration.checksum, started,
                completed, previous, reason,
            ),
        )  # fmt: skip

    record(RUNNING)
    session = database.session
    before = dict(session.properties), dict(session.variables)
    session.variables.update({name.upper(): value for name, value in variables.items()})
    try:
        for statement in statements:
            database.execute(statement)
    except MillstreamError as error:
        record(ERROR, reason=str(error.message))
        raise
    finally:
        for now, then in zip((session.properties, session.variables), before, strict=True):
            now.clear()
            now.update(then)
    record(MIGRATED, str(now_ms()))


def _changed(found: Sequence[Migration], known: Mapping[str, Event]) -> list[str]:
    """What is wrong with files that were applied."""
    files_by_version = {str(one.version): one for one in found}
    wrong = []
    for key, event in known.items():
        if key == CURRENT or event.state != MIGRATED:
            continue
        file = files_by_version.get(key)
        if file is None:
            wrong.append(f"Version {key} was applied, but its file is gone.")
        elif file.checksum != event.checksum:
            wrong.append(f"{file.path.name} is not what was applied: it has changed since.")
    return wrong


def _validate(found: Sequence[Migration], known: Mapping[str, Event], out: Output) -> int:
    wrong = _changed(found, known)
    out.lines(wrong or ["All migrations that were applied are as they were."])
    return 1 if wrong else 0


def _info(found: Sequence[Migration], known: Mapping[str, Event], out: Output) -> None:
    out.line(f"Current migration version: {latest_version(known)}")
    rows = []
    for one in found:
        event = known.get(str(one.version))
        if event is None:
            rows.append((one.version, one.name, PENDING, *[NOTHING] * 4))
        else:
            times = (_time(event.started_on), _time(event.completed_on))
            rows.append(
                (one.version, event.name, event.state, event.previous, *times, event.error_reason)
            )
    out.lines(table(_HEAD, rows, out.width, TableStyle()))


def _time(ms: str) -> str:
    return iso_timestamp(1000 * int(ms)) if ms.isdigit() else ms


def _read(path: str) -> Config:
    """The settings of a project. Raises StatementError for one that would have no effect."""
    if not Path(path).is_file():
        raise StatementError(f"There is no file {path}.", hint=_SETTINGS_HINT)
    config = read_config(path)
    if not config.properties.get("ksql.server.url"):
        raise StatementError(f"{path} has no ksql.server.url.", hint=_SETTINGS_HINT)
    for name in (*config.properties, *config.registry):
        if name not in _SETTINGS:
            raise StatementError(
                f"{path}: {name} is no setting of migrations here.",
                hint=f"There are {', '.join(_SETTINGS)}, and ssl.*",
            )
    return config


def _folder(config: Path, settings: Mapping[str, str]) -> Path:
    given = settings.get("ksql.migrations.dir.override")
    return Path(given) if given else config.parent / files.FOLDER


def _connected(config: Config, headers: Mapping[str, str]) -> Database:
    settings, properties = config.properties, {"auto.offset.reset": "earliest"}
    where = settings["ksql.server.url"]
    if not where.startswith(("http://", "https://")):
        if headers:
            raise StatementError("--headers are for a server.", hint=f"This is a file: {where}")
        return millstream.connect(where, properties=properties)
    # The HTTP client takes long to import.
    from millstream.remote.http import Credentials
    from millstream_cli.sessions.remote import RemoteSession

    user = settings.get("ksql.auth.basic.username")
    password = None if user is None else settings.get("ksql.auth.basic.password", "")
    connection = Config(connection=config.connection, properties=properties)
    credentials = Credentials(user, password, headers=headers)
    return RemoteSession.connect(where, credentials, connection).database


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millstream migrations",
        description="Changes streams, tables and queries by numbered files, each once; files and"
        " records are those of ksqlDB's tool.",
    )
    parser.add_argument(
        "-c", "--config-file", default=files.PROPERTIES, metavar="FILE",
        help=f"the project's settings (default: {files.PROPERTIES})",
    )  # fmt: skip
    actions = parser.add_subparsers(dest="action", required=True)
    new = actions.add_parser("new-project", help="make a folder for migrations")
    new.add_argument("folder")
    new.add_argument("url", help="of the server, or a database's file")
    actions.add_parser("initialize-metadata", help="create what records are kept in")
    create = actions.add_parser("create", help="make an empty migration")
    create.add_argument("description")
    create.add_argument("-v", "--version", type=int, metavar="N", help="default: the next one")
    apply = actions.add_parser("apply", help="apply migrations, in order")
    which = apply.add_mutually_exclusive_group(required=True)
    which.add_argument("-a", "--all", action="store_true")
    which.add_argument("-n", "--next", action="store_true")
    which.add_argument("-u", "--until", type=int, metavar="N")
    which.add_argument("-v", "--version", type=int, metavar="N")
    apply.add_argument(
        "-d", "--define", action="append", default=[], type=setting, metavar="NAME=VALUE",
        help="a variable; may be repeated",
    )  # fmt: skip
    apply.add_argument(
        "--headers", metavar="FILE", help="lines name=value: headers of each request to the server"
    )
    apply.add_argument("--dry-run", action="store_true", help="only print the statements")
    actions.add_parser("info", help="list the migrations and their states")
    actions.add_parser("validate", help="whether applied files are as they were")
    actions.add_parser("destroy-metadata", help="drop the records, with their topics")
    return parser

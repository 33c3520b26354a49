"""A database whose streams, tables and queries come from one file of SQL (`ksql.queries.file`).

The statements that an earlier start executed are on the command log. Each start skips those and
executes the others. So the only permitted change of the file is to append statements.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.command_topic.entries import Command
from millstream.model.errors import ConflictError
from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement, locate, parse_text, read_text
from millstream.service import wordings
from millstream.service.engine import Engine
from millstream.service.execution import execute_all
from millstream.statements.control import set_property
from millstream_parser import statements as s

_ALLOWED = (s.CreateSource, s.CreateAs, s.InsertInto, s.CreateType, s.DropType, s.SetProperty)


def run_queries_file(engine: Engine, path: str, session: Session) -> None:
    """Execute the new statements of the file, and refuse all other changes of the catalog.

    Raises StatementError if the file cannot be read or contains other kinds of statements, and
    ConflictError if the database was not created from it; then it executes nothing.
    """
    statements = read_queries(path, "queries file")
    commands = [command for _, command in engine.command_topic.log.read()]
    for _ in execute_all(engine, _remaining(statements, commands, path, session), session):
        pass
    engine.queries_file = path


def read_queries(path: str, what: str) -> list[ParsedStatement]:
    """The statements of a file that defines a database. Raises StatementError if the file cannot be
    read or contains other kinds of statements. `what`: the noun for the file in messages."""
    statements = parse_text(read_text(path, f"the {what}"))
    for parsed in statements:
        statement = parsed.statement
        if not isinstance(statement, _ALLOWED) or getattr(statement, "system", False):
            error = wordings.QUERIES_FILE_STATEMENT(
                what=what,
                statement=parsed.text,
                hint="It may hold CREATE STREAM, TABLE and TYPE, INSERT INTO … SELECT, DROP TYPE, "
                "SET and UNSET.",
            )
            locate(error, parsed.script)
            raise error
    return statements


def _remaining(
    statements: list[ParsedStatement], commands: list[Command], path: str, session: Session
) -> list[ParsedStatement]:
    """The statements that are not on the command log yet. SET and UNSET before them take effect."""
    done = 0
    for index, parsed in enumerate(statements):
        if isinstance(parsed.statement, s.SetProperty):
            if done < len(commands):
                set_property(parsed.statement, session)
                continue
            return statements[index:]
        if done == len(commands):
            return statements[index:]
        if _is_of(parsed, commands[done]):
            done += 1
        elif not (
            getattr(parsed.statement, "if_not_exists", False)
            or getattr(parsed.statement, "if_exists", False)
        ):
            raise _changed(path, commands[done], parsed.text)
    if done < len(commands):
        raise _changed(path, commands[done], "nothing")
    return []


def _is_of(parsed: ParsedStatement, command: Command) -> bool:
    """Whether a command is that of a statement of the file. That of a CREATE also has the columns
    that came from the schema registry."""
    if parsed.text == command.text:
        return True
    own = parsed.statement
    if not isinstance(own, s.CreateSource):
        return False
    (other,) = (each.statement for each in parse_text(command.text))
    return (
        isinstance(other, s.CreateSource)
        and set(own.elements) < set(other.elements)
        and replace(other, elements=own.elements) == own
    )


def _changed(path: str, command: Command, text: str) -> ConflictError:
    return wordings.QUERIES_FILE_DIFFERS(
        path=path,
        detail=f"The database has: {command.text}\nThe file has instead: {text}",
        hint="Add statements at the end only, or start with a new database.",
    )

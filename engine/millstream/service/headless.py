"""A database whose streams, tables and queries come from one file of SQL (`ksql.queries.file`).

The file is the first part of what the command log holds: at each start the statements that are on
the log already are passed over and the others are executed. So statements may be added at the end
of the file, and nothing else.
"""

from __future__ import annotations

from millstream.model.errors import ConflictError
from millstream.service import wordings
from millstream.service.command_topic.entries import Command
from millstream.service.engine import Engine
from millstream.service.execution import execute_piece
from millstream.service.session import Session
from millstream.service.statements.control import set_property
from millstream.service.text import ParsedStatement, locate, parse_text, read_text
from millstream_parser import statements as s

_ALLOWED = (s.CreateSource, s.CreateAs, s.InsertInto, s.CreateType, s.DropType, s.SetProperty)


def run_queries_file(engine: Engine, path: str, session: Session) -> None:
    """Bring the engine to what the file says, and let nothing else change its catalog.

    Raises StatementError for a file that cannot be read or holds other statements, ConflictError
    where the database holds something else already; nothing is executed then.
    """
    pieces = read_queries(path, "queries file")
    commands = [command for _, command in engine.commands.read()]
    for piece in _remaining(pieces, commands, path, session):
        if isinstance(piece.statement, s.SetProperty):
            set_property(piece.statement, session)
        else:
            execute_piece(engine, piece, session)
    engine.queries_file = path


def read_queries(path: str, what: str) -> list[ParsedStatement]:
    """The statements of a file that defines a database; StatementError where it cannot be read or
    holds others. `what`: such a file's noun."""
    pieces = parse_text(read_text(path, f"the {what}"))
    for piece in pieces:
        statement = piece.statement
        if not isinstance(statement, _ALLOWED) or getattr(statement, "system", False):
            error = wordings.QUERIES_FILE_STATEMENT(
                what=what,
                piece=piece.text,
                hint="It may hold CREATE STREAM, TABLE and TYPE, INSERT INTO … SELECT, DROP TYPE, "
                "SET and UNSET.",
            )
            locate(error, piece.script)
            raise error
    return pieces


def _remaining(
    pieces: list[ParsedStatement], commands: list[Command], path: str, session: Session
) -> list[ParsedStatement]:
    """The statements that are not on the command log yet; SET and UNSET before them are obeyed."""
    done = 0
    for index, piece in enumerate(pieces):
        if isinstance(piece.statement, s.SetProperty):
            if done < len(commands):
                set_property(piece.statement, session)
                continue
            return pieces[index:]
        if done == len(commands):
            return pieces[index:]
        if piece.text == commands[done].text:
            done += 1
        elif not (
            getattr(piece.statement, "if_not_exists", False)
            or getattr(piece.statement, "if_exists", False)
        ):
            raise _changed(path, commands[done], piece.text)
    if done < len(commands):
        raise _changed(path, commands[done], "nothing")
    return []


def _changed(path: str, command: Command, text: str) -> ConflictError:
    return wordings.QUERIES_FILE_DIFFERS(
        path=path,
        detail=f"The database has: {command.text}\nThe file has in its place: {text}",
        hint="Add statements at the end only, or start with a new database.",
    )

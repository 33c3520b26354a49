"""Commands that are carried out once more: at a start, and where another instance wrote them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from millstream.model.errors import FencedError, MillstreamError, UnavailableError
from millstream.model.problem import Problem
from millstream.service.command_log.entries import Command
from millstream.service.engine import Engine
from millstream.service.results import Done
from millstream.service.session import Session
from millstream.service.statements import definitions
from millstream.service.text import Piece, parse_text
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a statement on the command topic: done, or failed for a reason."""

    statement: s.Statement
    done: Done | None = None
    reason: str = ""


def replay(engine: Engine, command: Command) -> tuple[Outcome, ...]:
    """Let the catalog be as after a command, which is one statement; no query is started or ended.
    There is no outcome of a text that cannot be read.

    A command that fails here leaves the catalog as it was and is noted: it is the object of that
    command that is missing then, not the engine. Raises UnavailableError when the log did not
    answer.
    """
    before = engine.world()
    engine.topics.update(command.topics)
    pieces: list[Piece] = []
    outcomes = []
    try:
        # With its semicolon where it came with one: the catalog keeps the text.
        pieces = [replace(piece, text=command.text) for piece in parse_text(command.text)]
        for piece in pieces:
            session = Session(dict(command.properties))
            done, _ = definitions.apply(piece, engine, session, command.number, replaying=True)
            outcomes.append(Outcome(piece.statement, done))
    except (UnavailableError, FencedError):
        raise
    except Exception as error:
        engine.catalog = before.catalog
        reason = _reported(engine, command, error)
        return tuple(Outcome(piece.statement, reason=reason) for piece in pieces)
    engine.ledger.note(command, before, engine.world())
    return tuple(outcomes)


def _reported(engine: Engine, command: Command, error: Exception) -> str:
    """An error that is not ours is a fault in the engine, and no reason either to stop it."""
    ours = isinstance(error, MillstreamError)
    reason = str(error) if ours else f"{type(error).__name__}: {error}"
    message = f"The statement with number {command.number} failed here: {reason}"
    if not ours:
        logging.getLogger("millstream").error(message, exc_info=error)
    engine.ledger.unapplied[command.number] = f"{reason}\nThe statement: {command.text}"
    engine.processing_log.add("", (Problem("COMMAND", message, "", -1),))
    return reason

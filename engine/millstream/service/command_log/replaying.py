"""Commands that are carried out once more: at a start, and where another instance wrote them."""

from __future__ import annotations

import logging

from millstream.model.errors import FencedError, MillstreamError, UnavailableError
from millstream.model.problem import Problem
from millstream.service.command_log.entries import Command
from millstream.service.engine import Engine
from millstream.service.session import Session
from millstream.service.statements import definitions
from millstream.service.text import parse_text


def replay(engine: Engine, command: Command) -> None:
    """Let the catalog be as after a command; no query is started or ended.

    A command that fails here leaves the catalog as it was and is noted: it is the object of that
    command that is missing then, not the engine. Raises UnavailableError when the log did not
    answer.
    """
    before = engine.world()
    engine.topics.update(command.topics)
    try:
        for piece in parse_text(command.text):
            session = Session(dict(command.properties))
            definitions.apply(piece, engine, session, command.number, replaying=True)
    except (UnavailableError, FencedError):
        raise
    except Exception as error:
        engine.catalog = before.catalog
        _report(engine, command, error)
        return
    engine.ledger.note(command, before, engine.world())


def _report(engine: Engine, command: Command, error: Exception) -> None:
    """An error that is not ours is a fault in the engine, and no reason either to stop it."""
    ours = isinstance(error, MillstreamError)
    reason = str(error) if ours else f"{type(error).__name__}: {error}"
    message = f"The statement with number {command.number} failed here: {reason}"
    if not ours:
        logging.getLogger("millstream").error(message, exc_info=error)
    engine.ledger.unapplied[command.number] = f"{reason}\nThe statement: {command.text}"
    engine.processing_log.add("", (Problem("COMMAND", message, "", -1),))

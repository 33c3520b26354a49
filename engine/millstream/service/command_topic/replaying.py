"""Commands that are planned once more: at a start, and where another instance wrote them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from millstream.ddl.change import plan_change
from millstream.ddl.effects import Effect, ReplaceQuery
from millstream.ddl.environment import ConfiguredStatement, Environment
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.model.errors import MillstreamError
from millstream.model.problem import Problem
from millstream.service.command_topic.entries import Command
from millstream.service.engine import Engine
from millstream.service.results import Done
from millstream.service.text import ParsedStatement, parse_text
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a statement on the command topic: done, or failed for a reason."""

    statement: s.Statement
    done: Done | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Replayed:
    """`after`: the catalog after a command. One that failed leaves it as it was before."""

    after: CatalogSnapshot
    outcomes: tuple[Outcome, ...]
    effects: tuple[Effect, ...] = ()
    error: Exception | None = None


def replayed(command: Command, before: CatalogSnapshot, environment: Environment) -> Replayed:
    """What a command, which is one statement, makes of a catalog. There is no outcome of a text
    that cannot be read."""
    after, outcomes = before, []
    pieces: list[ParsedStatement] = []
    effects: list[Effect] = []
    try:
        pieces = parse_text(command.text)
        for piece in pieces:
            # The text with its semicolon where it came with one: the catalog keeps it.
            given = ConfiguredStatement(
                piece.statement, command.text, piece.script, command.properties, command.number
            )
            change = plan_change(given, after, environment)
            after = change.after
            effects += change.effects
            done = Done(change.message, change.query_id, change.changed)
            outcomes.append(Outcome(piece.statement, done))
    except Exception as error:
        reason = reason_of(error)
        failed = tuple(Outcome(piece.statement, reason=reason) for piece in pieces)
        return Replayed(before, failed, error=error)
    return Replayed(after.with_topics(command.topics), tuple(outcomes), tuple(effects))


def replay(engine: Engine, command: Command) -> None:
    """Let the catalog of an engine be as after a command; no query is started or ended. One that
    fails here is noted: it is the object of that command that is missing then, not the engine."""
    before = engine.definitions
    made = replayed(command, before, engine.replay_environment)
    if made.error is not None:
        _report(engine, command, made.error)
        return
    engine.definitions = made.after
    engine.ledger.note(command, before, made.after)
    engine.ledger.replaced.update(
        effect.query_id for effect in made.effects if isinstance(effect, ReplaceQuery)
    )


def reason_of(error: Exception) -> str:
    """Why a command failed. An error that is not ours is a fault in the engine."""
    ours = isinstance(error, MillstreamError)
    return str(error) if ours else f"{type(error).__name__}: {error}"


def _report(engine: Engine, command: Command, error: Exception) -> None:
    """A fault in the engine is no reason to stop it, either."""
    reason = reason_of(error)
    message = f"The statement with number {command.number} failed here: {reason}"
    if not isinstance(error, MillstreamError):
        logging.getLogger("millstream").error(message, exc_info=error)
    engine.ledger.unapplied[command.number] = f"{reason}\nThe statement: {command.text}"
    engine.processing_log.add("", (Problem("COMMAND", message, "", -1),))

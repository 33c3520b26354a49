"""Replays commands: those on the topic at a start, and those of other instances."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from millstream.command_topic.command_topic import CommandTopic
from millstream.command_topic.entries import Command
from millstream.command_topic.replay_state import UNAPPLIED_HINT
from millstream.ddl.change import plan_change
from millstream.ddl.effects import Effect, ReplaceQuery
from millstream.ddl.environment import ConfiguredStatement, Environment
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.model.errors import MillstreamError
from millstream.model.problem import Problem
from millstream.queries.orphans import delete_topic
from millstream.scripts.text import ParsedStatement, parse_text
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """The outcome of a statement on the command topic: its message and the query that it started,
    or the reason of its failure."""

    statement: s.Statement
    message: str = ""
    query_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """`after`: the catalog after a command; unchanged if the command failed."""

    after: CatalogSnapshot
    outcomes: tuple[StatementOutcome, ...]
    effects: tuple[Effect, ...] = ()
    error: Exception | None = None


def plan_command(
    command: Command, before: CatalogSnapshot, environment: Environment
) -> ReplayResult:
    """Plan a command, which is one statement, on a catalog. A text that cannot be parsed has no
    outcome."""
    after, outcomes = before, []
    parsed: list[ParsedStatement] = []
    effects: list[Effect] = []
    try:
        parsed = parse_text(command.text)
        for statement in parsed:
            # The catalog keeps the text of the command, including a semicolon at its end.
            configured = ConfiguredStatement(
                statement.statement,
                command.text,
                statement.script,
                command.properties,
                command.number,
                command.issued_at,
            )
            change = plan_change(configured, after, environment)
            after = change.after
            effects += change.effects
            outcomes.append(StatementOutcome(statement.statement, change.message, change.query_id))
    except Exception as error:
        reason = reason_of(error)
        failed = tuple(StatementOutcome(statement.statement, reason=reason) for statement in parsed)
        return ReplayResult(before, failed, error=error)
    return ReplayResult(after.with_topics(command.topics), tuple(outcomes), tuple(effects))


def finish_last(command_topic: CommandTopic) -> None:
    """Delete the topic that the last command deletes after it is written, if the instance that
    wrote it did not. This runs before any other statement, which would otherwise reuse the
    topic."""
    applied = command_topic.state.applied
    if applied and applied[-1].command.deletes is not None:
        delete_topic(command_topic.registry.log, *applied[-1].command.deletes)


def replay(command_topic: CommandTopic, command: Command) -> None:
    """Apply a command to the catalog; starts and ends no query. If the command fails,
    the failure is recorded, and only the object of that command is missing."""
    before = command_topic.registry.definitions
    result = plan_command(command, before, command_topic.registry.replay_environment)
    if result.error is not None:
        _report_failure(command_topic, command, result.error)
        return
    command_topic.registry.definitions = result.after
    command_topic.state.record(command, before, result.after)
    command_topic.registry.replaced.update(
        effect.query_id for effect in result.effects if isinstance(effect, ReplaceQuery)
    )


def reason_of(error: Exception) -> str:
    """Why a command failed. An error that is no MillstreamError is a bug of the engine."""
    expected = isinstance(error, MillstreamError)
    return str(error) if expected else f"{type(error).__name__}: {error}"


def _report_failure(command_topic: CommandTopic, command: Command, error: Exception) -> None:
    """Record why a command failed. A bug of the engine does not stop it either."""
    reason = reason_of(error)
    message = f"The statement with number {command.number} failed here: {reason}"
    log = logging.getLogger("millstream")
    if isinstance(error, MillstreamError):
        log.warning("%s\nThe statement: %s\n%s", message, command.text, UNAPPLIED_HINT)
    else:
        log.error(message, exc_info=error)
    command_topic.state.unapplied[command.number] = f"{reason}\nThe statement: {command.text}"
    command_topic.registry.report("", (Problem("COMMAND", message, "", -1),))

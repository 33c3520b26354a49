"""Executes statements that change the catalog: applies them and appends them to the command topic.

On a shared log they are prepared under a lease. If another instance takes the lease meanwhile, the
attempt is undone and repeated on top of that instance's command.

Statements that only create are executed together: one lease, one request for all of their topics,
one transaction for the start positions, and one for the commands
(docs/adr/0037-ddl-in-batches.md). The outcome is that of executing them one after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from millstream.command_topic import following, quiesced
from millstream.command_topic.command_topic import CommandTopic
from millstream.command_topic.commands import UNKNOWN, CommandTopicLease, LeaseLostError
from millstream.command_topic.entries import Command
from millstream.command_topic.replaying import finish_last
from millstream.ddl.change import plan_change
from millstream.ddl.effects import Change
from millstream.ddl.environment import ConfiguredStatement, Environment
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.ddl.topics import PlannedTopics, created_topic
from millstream.model.errors import ConflictError, FencedError, MillstreamError
from millstream.queries import reconcile, teardown
from millstream.queries.backfill_result import (
    BackfillResult,
    definition_changed,
    first_commit,
)
from millstream.queries.registry import PersistentQuery

ATTEMPTS = 5
TOGETHER_MAX = 100
"""How many statements are executed together at most: the lock is held meanwhile."""


def issue(
    command_topic: CommandTopic,
    configured: ConfiguredStatement,
    backfill: BackfillResult | None = None,
) -> Change:
    """Execute a statement that changes the catalog, for all instances of the service. `backfill`:
    the result of the job that computed the past of the query that it starts.

    Raises ConflictError (code E-DDL-CONFLICT) if other instances took the lease during every
    attempt, UnavailableError (E-CMDLOG-DIVERGED) if the command topic is not as it was written.
    """
    (change,) = _issue(command_topic, [configured], backfill)
    return change


def issue_all(
    command_topic: CommandTopic, statements: Sequence[ConfiguredStatement]
) -> Iterator[Change]:
    """Execute statements that only create, without back-fills, and yield the change of each. Those
    before one that fails are executed, and those behind it are not."""
    left, together = list(statements), TOGETHER_MAX
    while left:
        try:
            changes = _issue(command_topic, left[:together], None)
        except NotTogetherError:
            # It shows which one it is, and executes those before it.
            together = 1
            continue
        del left[: len(changes)]
        yield from changes


def _issue(
    command_topic: CommandTopic,
    statements: Sequence[ConfiguredStatement],
    backfill: BackfillResult | None,
) -> list[Change]:
    """Execute the first statement, and those behind it up to one that is refused. Raises
    NotTogetherError if none of several was executed because one could not be."""
    quiesce = quiesced.quiesce_request(command_topic, backfill)
    with command_topic.registry.driver.lock:
        size = 0 if backfill is None else backfill.size
        for _ in range(ATTEMPTS):
            try:
                with command_topic.log.lease(
                    command_topic.clock(), size=size, quiesce=quiesce, statements=len(statements)
                ) as lease:
                    changes = Attempt(command_topic, lease, statements, backfill).run()
            except LeaseLostError:
                continue
            command_topic.registry.driver.wake()
            return changes
    raise ConflictError(
        f"Other instances of the service changed streams, tables or queries during each of"
        f" {ATTEMPTS} attempts to execute the statement; nothing was changed.",
        hint="Repeat the statement.",
        code="E-DDL-CONFLICT",
    )


class NotTogetherError(Exception):
    """One of several statements cannot be executed; nothing was changed."""


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A statement, the catalog before it, and what it changes there."""

    configured: ConfiguredStatement
    before: CatalogSnapshot
    change: Change


class Attempt:
    """One attempt to execute statements under a lease."""

    def __init__(
        self,
        command_topic: CommandTopic,
        lease: CommandTopicLease,
        statements: Sequence[ConfiguredStatement],
        backfill: BackfillResult | None,
    ) -> None:
        """`backfill`: of the only statement."""
        self.command_topic = command_topic
        self.lease = lease
        self.statements = statements
        self.backfill = backfill
        self.replaced = backfill.replaced.query_id if backfill and backfill.replaced else None
        self.written = False

    def run(self) -> list[Change]:
        """Plan the statements, apply them and write their commands; returns the changes of those
        before the first one that is refused, which is not the first of all. Raises LeaseLostError
        if the lease was lost before the commands were written; nothing is changed then."""
        command_topic = self.command_topic
        following.catch_up(command_topic, until=self.lease)
        command_topic.state.check()
        finish_last(command_topic)
        self.before = command_topic.registry.definitions
        topics = PlannedTopics(command_topic.registry.log)
        try:
            planned = self._plan(topics)
            changed = [item for item in planned if item.change.changed]
            if changed:
                self._apply(changed, topics)
        except FencedError as error:
            if command_topic.registry.shared and not self.written:
                # Another instance is starting a query with the same id, chosen by a user.
                raise LeaseLostError(error.message) from error
            raise
        following.save_if_due(
            command_topic, self.lease, command_topic.registry.settings.snapshot_commands
        )
        return [item.change for item in planned]

    def _numbers(self) -> Sequence[int]:
        """A number for each statement."""
        if not self.command_topic.registry.shared:
            return [self.command_topic.log.next_offset]
        token, numbers = self.command_topic.state.lease
        if token != self.lease.token or len(numbers) != len(self.statements):
            raise LeaseLostError("Another instance has taken the lease")
        return numbers

    def _plan(self, topics: PlannedTopics) -> list[PlannedChange]:
        """Plan each statement on the catalog that the ones before it make, up to the first one that
        is refused."""
        registry = self.command_topic.registry
        environment = replace(registry.environment, topics=topics)
        if len(self.statements) > 1:
            names = (created_topic(each.statement, each.properties) for each in self.statements)
            topics.ask(registry.log, {name for name in names if name is not None})
        planned: list[PlannedChange] = []
        for configured, number in zip(self.statements, self._numbers(), strict=True):
            before = planned[-1].change.after if planned else self.before
            try:
                planned.append(self._planned(configured, number, before, environment))
            except MillstreamError:
                if not planned:
                    raise
                # It is planned again as the first one, and refused then.
                break
            topics.apply(planned[-1].change.effects)
        return planned

    def _planned(
        self,
        configured: ConfiguredStatement,
        number: int,
        before: CatalogSnapshot,
        environment: Environment,
    ) -> PlannedChange:
        issued_at = self.command_topic.clock()
        configured = replace(configured, number=number, issued_at=issued_at)
        return PlannedChange(configured, before, plan_change(configured, before, environment))

    def _apply(self, planned: Sequence[PlannedChange], topics: PlannedTopics) -> None:
        command_topic, backfill = self.command_topic, self.backfill
        changes = [item.change for item in planned]
        if backfill is not None and (
            changes[0].backfill is None or changes[0].backfill.replaced != backfill.replaced
        ):
            raise definition_changed(changes[0].query_id or "")
        after = self._prepared(changes, topics)
        try:
            self._stop_replaced()
            self._write(planned, after)
        except MillstreamError as error:
            reconcile.take_back(command_topic.registry, self.before, written=error.code == UNKNOWN)
            if self.replaced is not None:
                self._resume_replaced(self.replaced, error)
            raise
        command_topic.registry.definitions = after
        reconcile.complete(command_topic.registry, changes, backfill)

    def _prepared(self, changes: Sequence[Change], topics: PlannedTopics) -> CatalogSnapshot:
        registry = self.command_topic.registry
        try:
            return reconcile.prepare(registry, changes, self.backfill, topics, self.lease.writer)
        except FencedError:
            raise
        except MillstreamError as error:
            if len(changes) == 1:
                raise
            raise NotTogetherError(str(error)) from error

    def _stop_replaced(self) -> None:
        """Stop the replaced query on all instances: the new table is compared with its final
        output."""
        if self.replaced is not None:
            teardown.stop(self.command_topic.registry, self.replaced)
        if (
            self.backfill is not None
            and self.backfill.replaced is not None
            and self.command_topic.registry.shared
        ):
            quiesced.await_quiesced(
                self.command_topic, self.backfill.replaced, self.backfill.partition_count
            )

    def _resume_replaced(self, query_id: str, error: MillstreamError) -> None:
        """Resume a query that was not replaced. If the outcome is unknown, record the error
        instead: the query may have been replaced."""
        if error.code == UNKNOWN:
            planned = self.command_topic.registry.plans[query_id]
            self.command_topic.registry.queries[query_id] = PersistentQuery(
                planned, error=str(error)
            )
        elif self.command_topic.registry.shared:
            following.end_quiescence(self.command_topic)
        else:
            reconcile.reconcile(self.command_topic.registry)

    def _write(self, planned: Sequence[PlannedChange], after: CatalogSnapshot) -> None:
        command_topic, replay_state = self.command_topic, self.command_topic.state
        commands = [_command(item, after) for item in planned]
        first = None
        if self.backfill is not None:
            (query_id,) = _new_queries(planned[0])
            first = first_commit(command_topic.registry, query_id, self.backfill)
        values = self.lease.append(
            commands, replay_state.previous, command_topic.clock(), replay_state.position, first
        )
        replay_state.record_appends(values)
        for item, command in zip(planned, commands, strict=True):
            replay_state.record(command, item.before, item.change.after)
        self.written = True


def _command(item: PlannedChange, after: CatalogSnapshot) -> Command:
    """`after`: a catalog with the topics of the queries."""
    return Command(
        item.configured.text,
        dict(item.configured.properties),
        item.change.deletes,
        {query_id: after.topics[query_id] for query_id in _new_queries(item)},
        item.configured.number,
        item.configured.issued_at,
    )


def _new_queries(item: PlannedChange) -> set[str]:
    return item.change.after.catalog.queries.keys() - item.before.catalog.queries.keys()

"""Executes a statement that changes the catalog: applies it and appends it to the command topic.

On a shared log the statement is prepared under a lease. If another instance takes the lease
meanwhile, the attempt is undone and repeated on top of that instance's command.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.command_topic import following, quiesced
from millstream.command_topic.command_topic import CommandTopic
from millstream.command_topic.commands import UNKNOWN, CommandTopicLease, LeaseLostError
from millstream.command_topic.entries import Command
from millstream.command_topic.replaying import finish_last
from millstream.ddl.change import plan_change
from millstream.ddl.effects import Change
from millstream.ddl.environment import ConfiguredStatement
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.ddl.topics import PlannedTopics
from millstream.model.errors import ConflictError, FencedError, MillstreamError
from millstream.queries import reconcile, teardown
from millstream.queries.backfill_result import (
    BackfillResult,
    definition_changed,
    first_commit,
)
from millstream.queries.registry import PersistentQuery

ATTEMPTS = 5


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
    quiesce = quiesced.quiesce_request(command_topic, backfill)
    with command_topic.registry.driver.lock:
        size = 0 if backfill is None else backfill.size
        for _ in range(ATTEMPTS):
            try:
                with command_topic.log.lease(
                    command_topic.clock(), size=size, quiesce=quiesce
                ) as lease:
                    change = Attempt(command_topic, lease, configured, backfill).run()
            except LeaseLostError:
                continue
            command_topic.registry.driver.wake()
            return change
    raise ConflictError(
        f"Other instances of the service changed streams, tables or queries during each of"
        f" {ATTEMPTS} attempts to execute the statement; nothing was changed.",
        hint="Repeat the statement.",
        code="E-DDL-CONFLICT",
    )


class Attempt:
    """One attempt to execute a statement, under a lease."""

    def __init__(
        self,
        command_topic: CommandTopic,
        lease: CommandTopicLease,
        configured: ConfiguredStatement,
        backfill: BackfillResult | None,
    ) -> None:
        self.command_topic = command_topic
        self.lease = lease
        self.configured = configured
        self.backfill = backfill
        self.replaced = backfill.replaced.query_id if backfill and backfill.replaced else None
        self.written = False

    def run(self) -> Change:
        """Plan the statement, apply it and write its command. Raises LeaseLostError if the lease
        was lost before the command was written; nothing is changed then."""
        command_topic = self.command_topic
        following.catch_up(command_topic, until=self.lease)
        command_topic.state.check()
        finish_last(command_topic)
        self.number = self._number()
        self.before = command_topic.registry.definitions
        try:
            change = self._execute()
        except FencedError as error:
            if command_topic.registry.shared and not self.written:
                # Another instance is starting a query with the same id, chosen by a user.
                raise LeaseLostError(error.message) from error
            raise
        following.save_if_due(
            command_topic, self.lease, command_topic.registry.settings.snapshot_commands
        )
        return change

    def _number(self) -> int:
        if not self.command_topic.registry.shared:
            return self.command_topic.log.next_offset
        token, number = self.command_topic.state.lease
        if token != self.lease.token:
            raise LeaseLostError("Another instance has taken the lease")
        return number

    def _execute(self) -> Change:
        self.configured = replace(
            self.configured, number=self.number, issued_at=self.command_topic.clock()
        )
        registry = self.command_topic.registry
        planned = PlannedTopics(registry.log)
        environment = replace(registry.environment, topics=planned)
        change = plan_change(self.configured, self.before, environment)
        if change.changed:
            self._apply(change, planned)
        return change

    def _apply(self, change: Change, planned: PlannedTopics) -> None:
        command_topic, backfill = self.command_topic, self.backfill
        planned_backfill = change.backfill
        if backfill is not None and (
            planned_backfill is None or planned_backfill.replaced != backfill.replaced
        ):
            raise definition_changed(change.query_id or "")
        after = reconcile.prepare(
            command_topic.registry, change, backfill, planned, self.lease.writer
        )
        try:
            self._stop_replaced()
            self._write(change, after)
        except MillstreamError as error:
            reconcile.take_back(command_topic.registry, self.before, written=error.code == UNKNOWN)
            if self.replaced is not None:
                self._resume_replaced(self.replaced, error)
            raise
        command_topic.registry.definitions = after
        reconcile.complete(command_topic.registry, change, backfill)

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

    def _write(self, change: Change, after: CatalogSnapshot) -> None:
        command_topic, replay_state = self.command_topic, self.command_topic.state
        new = after.catalog.queries.keys() - self.before.catalog.queries.keys()
        command = Command(
            self.configured.text,
            dict(self.configured.properties),
            change.deletes,
            {query_id: after.topics[query_id] for query_id in new},
            self.number,
            self.configured.issued_at,
        )
        first = None
        if self.backfill is not None:
            (query_id,) = new
            first = first_commit(command_topic.registry, query_id, self.backfill)
        value = self.lease.append(
            command, replay_state.previous, command_topic.clock(), replay_state.position, first
        )
        replay_state.record_append(value)
        replay_state.record(command, self.before, after)
        self.written = True

"""Executes a statement that changes the catalog: applies it and appends it to the command topic.

On a shared log the statement is prepared under a lease. If another instance takes the lease
meanwhile, the attempt is undone and repeated on top of that instance's command.
"""

from __future__ import annotations

from millstream.ddl.change import plan_change
from millstream.ddl.effects import Change
from millstream.ddl.environment import ConfiguredStatement
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.model.errors import ConflictError, FencedError, MillstreamError, StatementError
from millstream.queries import reconcile, teardown
from millstream.queries.backfill_result import (
    BackfillResult,
    definition_changed,
    first_commit,
)
from millstream.queries.registry import PersistentQuery
from millstream.service.command_topic import following, quiesced
from millstream.service.command_topic.commands import UNKNOWN, CommandTopicLease, LeaseLostError
from millstream.service.command_topic.entries import Command
from millstream.service.command_topic.replaying import finish_last
from millstream.service.engine import Engine
from millstream.service.results import Done
from millstream.service.session import Session
from millstream.service.statements import control
from millstream.service.text import ParsedStatement
from millstream_parser import statements as s

ATTEMPTS = 5


def issue(
    engine: Engine,
    parsed: ParsedStatement,
    session: Session,
    backfill: BackfillResult | None = None,
) -> Done:
    """Execute a statement that changes the catalog, for all instances of the service. `backfill`:
    the result of the job that computed the past of the query that it starts.

    Raises ConflictError (code E-DDL-CONFLICT) if other instances took the lease during every
    attempt, UnavailableError (E-CMDLOG-DIVERGED) if the command topic is not as it was written.
    """
    if engine.queries_file:
        raise StatementError(
            f"Streams, tables and queries come from {engine.queries_file} and from nowhere else.",
            hint="Add the statement to that file and start again.",
        )
    quiesce = quiesced.quiesce_request(engine, backfill)
    with engine.driver.lock:
        size = 0 if backfill is None else backfill.size
        for _ in range(ATTEMPTS):
            try:
                with engine.commands.lease(engine.clock(), size=size, quiesce=quiesce) as lease:
                    done = Attempt(engine, lease, parsed, session, backfill).run()
            except LeaseLostError:
                continue
            engine.driver.wake()
            return done
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
        engine: Engine,
        lease: CommandTopicLease,
        parsed: ParsedStatement,
        session: Session,
        backfill: BackfillResult | None,
    ) -> None:
        self.engine = engine
        self.lease = lease
        self.parsed = parsed
        self.session = session
        self.backfill = backfill
        self.replaced = backfill.replaced.query_id if backfill and backfill.replaced else None
        self.written = False

    def run(self) -> Done:
        """Plan the statement, apply it and write its command. Raises LeaseLostError if the lease
        was lost before the command was written; nothing is changed then."""
        engine = self.engine
        following.catch_up(engine)
        engine.replay_state.check()
        finish_last(engine)
        self.number = self._number()
        self.before = engine.registry.definitions
        try:
            done = self._execute()
        except FencedError as error:
            if engine.shared and not self.written:
                # Another instance is starting a query with the same id, chosen by a user.
                raise LeaseLostError(error.message) from error
            raise
        following.save_if_due(engine, self.lease, engine.settings.snapshot_commands)
        return done

    def _number(self) -> int:
        if not self.engine.shared:
            return self.engine.commands.next_offset
        token, number = self.engine.replay_state.lease
        if token != self.lease.token:
            raise LeaseLostError("Another instance has taken the lease")
        return number

    def _execute(self) -> Done:
        engine, parsed = self.engine, self.parsed
        if isinstance(parsed.statement, s.ControlQuery):
            ended = control.terminate_push_query(parsed.statement, engine)
            if ended is not None:
                return ended
        configured = ConfiguredStatement(
            parsed.statement, parsed.text, parsed.script, self.session.properties, self.number
        )
        change = plan_change(configured, self.before, engine.registry.environment)
        if change.changed:
            self._apply(change)
        return Done(change.message, change.query_id, change.changed)

    def _apply(self, change: Change) -> None:
        engine, backfill = self.engine, self.backfill
        planned_backfill = change.backfill
        if backfill is not None and (
            planned_backfill is None or planned_backfill.replaced != backfill.replaced
        ):
            raise definition_changed(change.query_id or "")
        after = reconcile.prepare(engine.registry, change, backfill)
        try:
            self._stop_replaced()
            self._write(change, after)
        except MillstreamError as error:
            reconcile.take_back(engine.registry, self.before, written=error.code == UNKNOWN)
            if self.replaced is not None:
                self._resume_replaced(self.replaced, error)
            raise
        engine.registry.definitions = after
        reconcile.complete(engine.registry, change, backfill)

    def _stop_replaced(self) -> None:
        """Stop the replaced query on all instances: the new table is compared with its final
        output."""
        if self.replaced is not None:
            teardown.stop(self.engine.registry, self.replaced)
        if self.backfill is not None and self.backfill.replaced is not None and self.engine.shared:
            quiesced.await_quiesced(
                self.engine, self.backfill.replaced, self.backfill.partition_count
            )

    def _resume_replaced(self, query_id: str, error: MillstreamError) -> None:
        """Resume a query that was not replaced. If the outcome is unknown, record the error
        instead: the query may have been replaced."""
        if error.code == UNKNOWN:
            planned = self.engine.registry.plans[query_id]
            self.engine.registry.queries[query_id] = PersistentQuery(planned, error=str(error))
        elif self.engine.shared:
            following.end_quiescence(self.engine)
        else:
            reconcile.reconcile(self.engine.registry)

    def _write(self, change: Change, after: CatalogSnapshot) -> None:
        engine, replay_state = self.engine, self.engine.replay_state
        new = after.catalog.queries.keys() - self.before.catalog.queries.keys()
        command = Command(
            self.parsed.text,
            dict(self.session.properties),
            change.deletes,
            {query_id: after.topics[query_id] for query_id in new},
            self.number,
        )
        first = None
        if self.backfill is not None:
            (query_id,) = new
            first = first_commit(engine.registry, query_id, self.backfill)
        value = self.lease.append(
            command, replay_state.previous, engine.clock(), replay_state.position, first
        )
        replay_state.record_append(value)
        replay_state.record(command, self.before, after)
        self.written = True

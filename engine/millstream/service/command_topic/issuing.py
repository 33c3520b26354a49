"""A statement that changes the catalog: applied, and written to the command topic.

On a log that other instances write to as well, it is prepared in a turn; when another instance
takes its own meanwhile, everything is undone and done again on top of what that one wrote.
"""

from __future__ import annotations

from millstream.ddl.change import plan_change
from millstream.ddl.effects import Change
from millstream.ddl.environment import ConfiguredStatement
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.model.errors import ConflictError, FencedError, MillstreamError, StatementError
from millstream.service import orphans, reconcile
from millstream.service.command_topic import following, quiesced
from millstream.service.command_topic.commands import UNKNOWN, CommandTopicLease, LeaseLostError
from millstream.service.command_topic.entries import Command
from millstream.service.engine import Engine, PersistentQuery
from millstream.service.history.backfill_result import (
    BackfillResult,
    definition_changed,
    first_commit,
)
from millstream.service.results import Done
from millstream.service.session import Session
from millstream.service.statements import control, teardown
from millstream.service.text import ParsedStatement
from millstream_parser import statements as s

ATTEMPTS = 5


def issue(
    engine: Engine, piece: ParsedStatement, session: Session, filled: BackfillResult | None = None
) -> Done:
    """Carry out a definition, for all instances of the service. `filled`: what a job has made of
    the past of the query that it starts.

    Raises ConflictError (code E-DDL-CONFLICT) when others were faster each time, UnavailableError
    (E-CMDLOG-DIVERGED) when the command topic is not what was written to it.
    """
    if engine.queries_file:
        raise StatementError(
            f"Streams, tables and queries come from {engine.queries_file} and from nowhere else.",
            hint="Add the statement to that file and start again.",
        )
    hold = quiesced.hold_for(engine, filled)
    with engine.driver.lock:
        size = 0 if filled is None else filled.size
        for _ in range(ATTEMPTS):
            try:
                with engine.commands.turn(engine.clock(), size=size, hold=hold) as turn:
                    done = Attempt(engine, turn, piece, session, filled).run()
            except LeaseLostError:
                continue
            engine.driver.wake()
            return done
    raise ConflictError(
        f"Other instances of the service changed streams, tables or queries during each of"
        f" {ATTEMPTS} attempts to carry out the statement; nothing was changed.",
        hint="Give it again.",
        code="E-DDL-CONFLICT",
    )


class Attempt:
    """One try to carry out a statement, in a turn."""

    def __init__(
        self,
        engine: Engine,
        turn: CommandTopicLease,
        piece: ParsedStatement,
        session: Session,
        filled: BackfillResult | None,
    ) -> None:
        self.engine = engine
        self.turn = turn
        self.piece = piece
        self.session = session
        self.filled = filled
        self.replaced = filled.replaced.query_id if filled and filled.replaced else None
        self.written = False

    def run(self) -> Done:
        """Plan the statement, carry it out and write it; LostTurnError where the turn was over
        first, and nothing is changed then."""
        engine = self.engine
        following.catch_up(engine)
        engine.ledger.check()
        orphans.finish_last(engine)
        self.number = self._number()
        self.before = engine.definitions
        try:
            done = self._done()
        except FencedError as error:
            if engine.shared and not self.written:
                # Two are starting a query under one id of a user.
                raise LeaseLostError(error.message) from error
            raise
        following.save_if_due(engine, self.turn, engine.settings.snapshot_commands)
        return done

    def _number(self) -> int:
        if not self.engine.shared:
            return self.engine.commands.next_offset
        token, number = self.engine.ledger.turn
        if token != self.turn.token:
            raise LeaseLostError("Another instance has taken its turn")
        return number

    def _done(self) -> Done:
        engine, piece = self.engine, self.piece
        if isinstance(piece.statement, s.ControlQuery):
            ended = control.terminate_push_query(piece.statement, engine)
            if ended is not None:
                return ended
        given = ConfiguredStatement(
            piece.statement, piece.text, piece.script, self.session.properties, self.number
        )
        change = plan_change(given, self.before, engine.environment)
        if change.changed:
            self._carry_out(change)
        return Done(change.message, change.query_id, change.changed)

    def _carry_out(self, change: Change) -> None:
        engine, filled = self.engine, self.filled
        begun = change.backfill
        if filled is not None and (begun is None or begun.replaced != filled.replaced):
            raise definition_changed(change.query_id or "")
        after = reconcile.prepare(engine, change, filled)
        try:
            self._still()
            self._write(change, after)
        except MillstreamError as error:
            reconcile.take_back(engine, self.before, written=error.code == UNKNOWN)
            if self.replaced is not None:
                self._go_on(self.replaced, error)
            raise
        engine.definitions = after
        reconcile.complete(engine, change, filled)

    def _still(self) -> None:
        """Stop the query that is to be replaced everywhere: the new table is compared with what it
        has written by then."""
        if self.replaced is not None:
            teardown.stop(self.engine, self.replaced)
        if self.filled is not None and self.filled.replaced is not None and self.engine.shared:
            quiesced.await_standing(self.engine, self.filled.replaced, self.filled.partition_count)

    def _go_on(self, query_id: str, error: MillstreamError) -> None:
        """Let a query run again that was not replaced, unless it may have been."""
        if error.code == UNKNOWN:
            planned = self.engine.plans[query_id]
            self.engine.queries[query_id] = PersistentQuery(planned, error=str(error))
        elif self.engine.shared:
            following.release(self.engine)
        else:
            reconcile.reconcile(self.engine)

    def _write(self, change: Change, after: CatalogSnapshot) -> None:
        engine, ledger = self.engine, self.engine.ledger
        new = after.catalog.queries.keys() - self.before.catalog.queries.keys()
        command = Command(
            self.piece.text,
            dict(self.session.properties),
            change.deletes,
            {query_id: after.topics[query_id] for query_id in new},
            self.number,
        )
        first = None
        if self.filled is not None:
            (begun,) = new
            first = first_commit(engine, begun, self.filled)
        value = self.turn.append(command, ledger.previous, engine.clock(), ledger.position, first)
        ledger.appended(value)
        ledger.note(command, self.before, after)
        self.written = True

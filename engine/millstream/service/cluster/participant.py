"""One instance's part in a snapshot: it holds queries, brings them forward, and keeps what its
state shows then.

The instance that has the pull query takes part itself, and sends the steps to all others. What
another instance asked for ends by itself when that one is not heard of in time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import assert_never

import duckdb

from millstream.model.errors import UnavailableError
from millstream.runtime.alignment import QueryTopics, Reached, read_up_to
from millstream.runtime.query_runner import STOPPED
from millstream.runtime.spec import QueryState
from millstream.service.cluster.partition_read import NOT_READY
from millstream.service.cluster.steps import Bring, End, Hold, ProgressByQuery, Step, Take
from millstream.service.engine import Engine

KEPT_S = 60.0
"""How long a snapshot is kept for an instance that does not say that it has read it."""
_WAIT_S = 0.005


def snapshot_not_ready(why: str) -> UnavailableError:
    """The error for tables that cannot be read as of one moment now."""
    return UnavailableError(
        f"{NOT_READY} the tables cannot be read at one moment yet: {why}",
        hint="Ask again, or for one table at a time.",
        code=NOT_READY,
    )


class Participant:
    """This instance's part in one snapshot. One step at a time."""

    def __init__(self, engine: Engine, cursor: duckdb.DuckDBPyConnection) -> None:
        """`cursor` sees the snapshot once that is taken."""
        self.cursor = cursor
        self._engine = engine
        self._holding = ExitStack()
        self._queries: dict[str, QueryTopics] = {}
        self._taken = False

    def do(self, step: Step) -> ProgressByQuery:
        """Do a step; UnavailableError (E-NOT-READY) when it cannot be done in its time."""
        match step:
            case Hold():
                self._hold(step)
            case Bring():
                self._bring(step)
            case Take():
                self._engine.store.take_snapshot(self.cursor)
                self._taken = True
            case End():
                self._end()
            case _:
                assert_never(step)
        reached = self._engine.runtime.reached
        known = ((query_id, reached(query_id)) for query_id in self._queries)
        answer = {query_id: found for query_id, found in known if found is not None}
        if self._taken:
            self._holding.close()
        return answer

    def _hold(self, step: Hold) -> None:
        until = time.monotonic() + step.seconds
        lineage = self._engine.runtime.lineage(step.query_ids)
        self._queries = {query.query_id: query for query in lineage.queries}
        differing = set(step.query_ids) ^ self._queries.keys()
        if differing:
            # One of the two instances has yet to apply a statement.
            raise snapshot_not_ready(f"query {min(differing)} is not running on all instances")
        # They have been brought forward then, and what they wrote is there for others.
        self._holding.callback(self._engine.driver.wake)
        try:
            self._holding.enter_context(self._engine.driver.holding(step.query_ids, until))
        except UnavailableError as error:
            if error.code == "E-QUERY-BUSY":
                raise snapshot_not_ready(error.message) from error
            raise

    def _bring(self, step: Bring) -> None:
        engine, until = self._engine, time.monotonic() + step.seconds
        if step.query_id not in self._queries or self._taken:
            raise snapshot_not_ready(f"query {step.query_id} is not held any more")
        wanted = read_up_to(self._queries[step.query_id], step.bounds)
        try:
            engine.runtime.end_at(step.query_id, step.bounds)
            while True:
                reached = engine.runtime.reached(step.query_id)
                if reached is None:
                    raise snapshot_not_ready(f"query {step.query_id} is not running here")
                behind = _behind(reached, wanted)
                if reached.state in STOPPED or not behind:
                    return
                if time.monotonic() > until:
                    raise snapshot_not_ready(f"query {step.query_id} {behind}")
                if not engine.driver.process(step.query_id):
                    time.sleep(_WAIT_S)
        finally:
            engine.runtime.end_at(step.query_id, {})

    def _end(self) -> None:
        try:
            self._holding.close()
        finally:
            if self._taken:
                self._taken = False
                self.cursor.rollback()


def _behind(reached: Reached, wanted: dict[tuple[str, int], int]) -> str:
    """What a query lacks to have read and committed all that its own tasks read up to these
    offsets; "" when nothing."""
    for (topic, partition), end in wanted.items():
        at = reached.positions.get((topic, partition), end)
        if at < end:
            return f"has read {topic}-{partition} up to {at} of {end}"
    if reached.state is not QueryState.RUNNING:
        return f"is in state {reached.state.value}"
    return "" if reached.committed else "has not committed all that it has read"


class Participations:
    """The snapshots in which this instance takes part for others. For several threads."""

    def __init__(self, engine: Engine, kept_s: float = KEPT_S) -> None:
        self._engine = engine
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._parts: dict[str, _Part] = {}

    def do(self, snapshot_id: str, step: Step) -> ProgressByQuery:
        """Do a step of a snapshot of another instance."""
        part = self._part(snapshot_id, begins=isinstance(step, Hold))
        if part is None:
            if isinstance(step, End):
                return {}
            raise snapshot_not_ready("the snapshot is not held any more")
        try:
            with part.lock:
                answer = part.participant.do(step)
        except BaseException:
            self._forget(snapshot_id)
            raise
        if isinstance(step, End):
            self._forget(snapshot_id)
        elif isinstance(step, Hold):
            part.ends_in(step.seconds, lambda: self._forget(snapshot_id))
        elif isinstance(step, Take):
            part.ends_in(self._kept_s, lambda: self._forget(snapshot_id))
        return answer

    @contextmanager
    def reading(self, snapshot_id: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor that sees a snapshot which was taken, for the caller alone."""
        part = self._part(snapshot_id, begins=False)
        if part is None:
            raise snapshot_not_ready("the snapshot is not kept any more")
        with part.lock:
            yield part.participant.cursor

    def close(self) -> None:
        """End all of them; idempotent."""
        for snapshot_id in list(self._parts):
            self._forget(snapshot_id)

    def _part(self, snapshot_id: str, *, begins: bool) -> _Part | None:
        with self._lock:
            if begins and snapshot_id not in self._parts:
                participant = Participant(self._engine, self._engine.store.cursor())
                self._parts[snapshot_id] = _Part(participant)
            return self._parts.get(snapshot_id)

    def _forget(self, snapshot_id: str) -> None:
        with self._lock:
            part = self._parts.pop(snapshot_id, None)
        if part is not None:
            part.end()


class _Part:
    """A participant that ends by itself."""

    def __init__(self, participant: Participant) -> None:
        self.participant = participant
        self.lock = threading.Lock()
        """Held while a step is done or rows are read: neither is ended half-way."""
        self._timer: threading.Timer | None = None

    def ends_in(self, seconds: float, end: Callable[[], object]) -> None:
        """Have it end after so long, instead of when it was to end before."""
        self._cancel()
        self._timer = threading.Timer(seconds, end)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """End it; waits for the step that is being done."""
        self._cancel()
        with self.lock:
            try:
                self.participant.do(End())
            finally:
                self.participant.cursor.close()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

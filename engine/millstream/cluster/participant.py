"""One instance's part in an aligned snapshot: it holds queries, advances them, and takes a snapshot
of its state.

The instance that runs the pull query is a participant itself, and sends the steps to all others. A
participation for another instance expires when that instance sends no further step in time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import assert_never

import duckdb

from millstream.cluster.cluster import Cluster
from millstream.cluster.partition_read import NOT_READY
from millstream.cluster.steps import (
    AdvanceQuery,
    HoldQueries,
    ProgressByQuery,
    ReleaseSnapshot,
    SnapshotStep,
    TakeSnapshot,
)
from millstream.model.errors import UnavailableError
from millstream.runtime.alignment import QueryTopics, Reached, read_up_to
from millstream.runtime.query_runner import STOPPED
from millstream.runtime.spec import QueryState

RETENTION_S = 60.0
"""How long a snapshot is kept for an instance that does not release it."""
_WAIT_S = 0.005


def snapshot_not_ready(why: str) -> UnavailableError:
    """The error when several tables cannot be read as of one moment now."""
    return UnavailableError(
        f"{NOT_READY} the tables cannot be read at one moment yet: {why}",
        hint="Retry, or query one table at a time.",
        code=NOT_READY,
    )


class Participant:
    """This instance's part in one snapshot. The caller executes one step at a time."""

    def __init__(self, cluster: Cluster, cursor: duckdb.DuckDBPyConnection) -> None:
        """`cursor` reads the snapshot once it is taken."""
        self.cursor = cursor
        self._cluster = cluster
        self._held = ExitStack()
        self._queries: dict[str, QueryTopics] = {}
        self._taken = False

    def execute(self, step: SnapshotStep) -> ProgressByQuery:
        """Execute a step; UnavailableError (E-NOT-READY) when it does not succeed in its time."""
        match step:
            case HoldQueries():
                self._hold(step)
            case AdvanceQuery():
                self._advance(step)
            case TakeSnapshot():
                self._cluster.registry.store.take_snapshot(self.cursor)
                self._taken = True
            case ReleaseSnapshot():
                self._release()
            case _:
                assert_never(step)
        reached = self._cluster.registry.runtime.reached
        running = ((query_id, reached(query_id)) for query_id in self._queries)
        progress = {query_id: at for query_id, at in running if at is not None}
        if self._taken:
            self._held.close()
        return progress

    def _hold(self, step: HoldQueries) -> None:
        until = time.monotonic() + step.seconds
        lineage = self._cluster.registry.runtime.lineage(step.query_ids)
        self._queries = {query.query_id: query for query in lineage.queries}
        differing = set(step.query_ids) ^ self._queries.keys()
        if differing:
            # One of the two instances has not applied a statement yet.
            raise snapshot_not_ready(f"query {min(differing)} is not running on all instances")
        try:
            self._held.enter_context(self._cluster.registry.driver.holding(step.query_ids, until))
        except UnavailableError as error:
            if error.code == "E-QUERY-BUSY":
                raise snapshot_not_ready(error.message) from error
            raise

    def _advance(self, step: AdvanceQuery) -> None:
        cluster, until = self._cluster, time.monotonic() + step.seconds
        if step.query_id not in self._queries or self._taken:
            raise snapshot_not_ready(f"query {step.query_id} is not held any more")
        wanted = read_up_to(self._queries[step.query_id], step.bounds)
        try:
            cluster.registry.runtime.end_at(step.query_id, step.bounds)
            while True:
                reached = cluster.registry.runtime.reached(step.query_id)
                if reached is None:
                    raise snapshot_not_ready(f"query {step.query_id} is not running here")
                missing = _missing_progress(reached, wanted)
                if reached.state in STOPPED or not missing:
                    return
                if time.monotonic() > until:
                    raise snapshot_not_ready(f"query {step.query_id} {missing}")
                if not cluster.registry.driver.process(step.query_id):
                    time.sleep(_WAIT_S)
        finally:
            cluster.registry.runtime.end_at(step.query_id, {})

    def _release(self) -> None:
        try:
            self._held.close()
        finally:
            if self._taken:
                self._taken = False
                self.cursor.rollback()


def _missing_progress(reached: Reached, wanted: dict[tuple[str, int], int]) -> str:
    """Why a query has not yet read and committed its own partitions up to the offsets `wanted`; ""
    if it has."""
    for (topic, partition), end in wanted.items():
        at = reached.positions.get((topic, partition), end)
        if at < end:
            return f"has read {topic}-{partition} up to {at} of {end}"
    if reached.state is not QueryState.RUNNING:
        return f"is in state {reached.state.value}"
    return "" if reached.committed else "has not committed all that it has read"


class Participations:
    """This instance's participations in the snapshots of other instances. Thread-safe."""

    def __init__(self, cluster: Cluster, retention_s: float = RETENTION_S) -> None:
        self._cluster = cluster
        self._retention_s = retention_s
        self._lock = threading.Lock()
        self._participations: dict[str, _ExpiringParticipant] = {}

    def execute(self, snapshot_id: str, step: SnapshotStep) -> ProgressByQuery:
        """Execute a step of a snapshot of another instance; see `Participant.execute`."""
        participation = self._participation(snapshot_id, create=isinstance(step, HoldQueries))
        if participation is None:
            if isinstance(step, ReleaseSnapshot):
                return {}
            raise snapshot_not_ready("the snapshot is not held any more")
        try:
            with participation.lock:
                progress = participation.participant.execute(step)
        except BaseException:
            self._forget(snapshot_id)
            raise
        if isinstance(step, ReleaseSnapshot):
            self._forget(snapshot_id)
        elif isinstance(step, HoldQueries):
            participation.expire_in(step.seconds, lambda: self._forget(snapshot_id))
        elif isinstance(step, TakeSnapshot):
            participation.expire_in(self._retention_s, lambda: self._forget(snapshot_id))
        return progress

    @contextmanager
    def reading(self, snapshot_id: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor on a snapshot that was taken, for exclusive use by the caller."""
        participation = self._participation(snapshot_id, create=False)
        if participation is None:
            raise snapshot_not_ready("the snapshot is not kept any more")
        with participation.lock:
            yield participation.participant.cursor

    def close(self) -> None:
        """Release all snapshots; idempotent."""
        for snapshot_id in list(self._participations):
            self._forget(snapshot_id)

    def _participation(self, snapshot_id: str, *, create: bool) -> _ExpiringParticipant | None:
        with self._lock:
            if create and snapshot_id not in self._participations:
                participant = Participant(self._cluster, self._cluster.registry.store.cursor())
                self._participations[snapshot_id] = _ExpiringParticipant(participant)
            return self._participations.get(snapshot_id)

    def _forget(self, snapshot_id: str) -> None:
        with self._lock:
            participation = self._participations.pop(snapshot_id, None)
        if participation is not None:
            participation.release()


class _ExpiringParticipant:
    """A participant that releases its snapshot after a timeout."""

    def __init__(self, participant: Participant) -> None:
        self.participant = participant
        self.lock = threading.Lock()
        """Held while a step runs or rows are read: the timeout interrupts neither."""
        self._timer: threading.Timer | None = None

    def expire_in(self, seconds: float, expire: Callable[[], object]) -> None:
        """Call `expire` after `seconds`; replaces an earlier timeout."""
        self._cancel()
        self._timer = threading.Timer(seconds, expire)
        self._timer.daemon = True
        self._timer.start()

    def release(self) -> None:
        """Release the snapshot; waits for a step that is running."""
        self._cancel()
        with self.lock:
            try:
                self.participant.execute(ReleaseSnapshot())
            finally:
                self.participant.cursor.close()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

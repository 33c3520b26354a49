"""Reads several tables as of one moment: advances every query that feeds them to the same offsets.

All instances that share the queries hold them. The end offsets of the sources, as of one moment,
are the cut. In the order of the data, each query reads up to the cut and commits; downstream
queries read its output up to the end. Then every instance takes a snapshot of its state, and the
queries continue. The snapshots together show the tables as of the cut
(docs/adr/0021-one-snapshot.md).
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa

from millstream.cluster.cluster import Cluster
from millstream.cluster.participant import Participant, snapshot_not_ready
from millstream.cluster.partition_read import PartitionRead
from millstream.cluster.routing import Fetch, GatheredRows
from millstream.cluster.steps import (
    AdvanceQuery,
    HoldQueries,
    ProgressByQuery,
    ReleaseSnapshot,
    SendStep,
    SnapshotStep,
    TakeSnapshot,
)
from millstream.log.log import TopicPartition
from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.runtime.alignment import Lineage, QueryTopics, Reached, merged, moved_up_to
from millstream.runtime.query_runner import STOPPED
from millstream.runtime.spec import QueryState

NOT_ALIGNED = "E-SNAPSHOT"
HOLD_S = 2.0
"""The maximum time for which queries are held."""
LAG_RECORDS_MAX = 200_000
"""A query with more unread records is not waited for: the other queries would be held too long."""
CHECK_THREADS = 4
"""How many queries are checked concurrently."""
GRACE_S = 1.0
"""The time for a step without a limit of its own, and the time for the round trip of any step."""
Positions = Mapping[TopicPartition, int]
"""Offsets by partition."""


@dataclass(frozen=True, slots=True)
class RemoteParticipant:
    """The instance at `address` as a participant in a snapshot."""

    address: str
    snapshot_id: str
    send: SendStep

    def execute(self, step: SnapshotStep) -> ProgressByQuery:
        """See `Participant.execute`."""
        seconds = step.seconds if isinstance(step, HoldQueries | AdvanceQuery) else GRACE_S
        try:
            return self.send(self.address, self.snapshot_id, step, seconds + GRACE_S)
        except UnavailableError as error:
            raise snapshot_not_ready(error.message) from error


@dataclass(frozen=True, slots=True)
class AlignedSnapshot:
    """Tables as of one moment: they reflect the source records before the offsets `cut`."""

    cut: Positions
    local_tasks: Mapping[str, frozenset[int]] | None
    """The tasks of each query on this instance; None if it has all state."""
    remote_tasks: tuple[tuple[RemoteParticipant, Mapping[str, frozenset[int]]], ...]
    """The other instances, and their tasks of each query."""

    def gather(self, request: PartitionRead, fetch: Fetch, timeout_ms: int) -> GatheredRows:
        """Fetch the rows of the other instances; UnavailableError (E-NOT-READY) if one of them has
        released the snapshot already."""
        local = request.partitions
        if self.local_tasks is not None:
            local &= self.local_tasks.get(request.query_id, frozenset())
        rows: list[pa.Table] = []
        for remote, tasks in self.remote_tasks:
            partitions = request.partitions & tasks.get(request.query_id, frozenset())
            if partitions:
                part = replace(request, partitions=partitions, snapshot=remote.snapshot_id)
                try:
                    rows.append(fetch(remote.address, part, timeout_ms))
                except UnavailableError as error:
                    raise snapshot_not_ready(error.message) from error
        return GatheredRows(local, tuple(rows))


@contextmanager
def aligned_snapshot(
    cluster: Cluster, query_ids: Collection[str], cursor: duckdb.DuckDBPyConnection
) -> Iterator[AlignedSnapshot]:
    """Context manager: inside, `cursor` and the rows fetched with the yielded snapshot show the
    tables of these queries as of one moment.

    Raises UnavailableError (E-NOT-READY) if the queries are not aligned within HOLD_S, and
    StatementError (E-SNAPSHOT) if a stopped query has read up to other offsets.
    """
    lineage = cluster.registry.runtime.lineage(query_ids)
    for query_id in lineage.query_ids:
        reached = cluster.registry.runtime.reached(query_id)
        if reached is not None:
            check_lag(cluster, query_id, reached)
    alignment = Alignment(cluster, lineage, cursor, time.monotonic() + HOLD_S)
    try:
        alignment.hold()
        cut = alignment.advance_all()
        yield alignment.take(cut)
    finally:
        alignment.release()


class Alignment:
    """Aligns the queries of one lineage, on all instances that share them, at one cut."""

    def __init__(
        self, cluster: Cluster, lineage: Lineage, cursor: duckdb.DuckDBPyConnection, until: float
    ) -> None:
        """`cursor` will read the snapshot; `until` is its deadline on the monotonic clock."""
        self._cluster = cluster
        self._lineage = lineage
        self._until = until
        self._participants: dict[str, Participant | RemoteParticipant] = {}
        """By address, "" for this instance. The order is the same on all instances: two
        alignments hold queries in this order and cannot deadlock."""
        self._held: dict[str, Reached] = {}
        routing, snapshot_id = cluster.routing, uuid.uuid4().hex
        if routing is None:
            self._participants[""] = Participant(cluster, cursor)
            return
        for address in routing.addresses(lineage.query_ids):
            self._participants[address] = (
                RemoteParticipant(address, snapshot_id, routing.send)
                if address
                else Participant(cluster, cursor)
            )

    def hold(self) -> None:
        """Hold the queries on all instances, one instance after the other."""
        query_ids = tuple(sorted(self._lineage.query_ids))
        answers = [
            participant.execute(HoldQueries(query_ids, self._left()))
            for participant in self._participants.values()
        ]
        self._held = {query.query_id: _merged(query, answers) for query in self._lineage.queries}
        for query_id, reached in self._held.items():
            check_lag(self._cluster, query_id, reached)

    def advance_all(self) -> Positions:
        """Advance each query to the cut, in the order of the data; returns the cut."""
        lineage = self._lineage
        sources = [p for q in lineage.queries for p in q.partitions if p[0] in lineage.sources]
        ends = consistent_ends(self._cluster, frozenset(sources), self._until)
        cut = self._cut(ends)
        bounds: dict[TopicPartition, int] = dict(cut)
        for query in lineage.queries:
            inner = [p for p in query.partitions if p[0] in query.inputs - lineage.sources]
            # Records that another instance has committed may not be readable yet, so `end_offsets`
            # may lag behind.
            bounds |= self._cluster.registry.log.written_ends(inner)
            bounds |= self.advance(query, bounds)
        self._check_not_overtaken(bounds)
        return cut

    def advance(self, query: QueryTopics, bounds: Positions) -> Positions:
        """Advance one query to the offsets `bounds` of its inputs, one sub-topology after the
        other; returns these offsets and those of its repartition topics."""
        own = {p: end for p, end in bounds.items() if p in query.partitions}
        while True:
            answers = self._execute_on_all(AdvanceQuery(query.query_id, own, self._left()))
            reached = _merged(query, list(answers.values()))
            if reached.state in STOPPED:
                self._check_stopped(query, reached, own)
                return own
            moved = moved_up_to(query, own, reached.positions)
            if not moved:
                return own
            own |= self._cluster.registry.log.written_ends(moved)

    def take(self, cut: Positions) -> AlignedSnapshot:
        """Take a snapshot of the state on all instances, and let the queries continue."""
        answers = self._execute_on_all(TakeSnapshot())
        if self._cluster.routing is None:
            return AlignedSnapshot(cut, None, ())
        for query in self._lineage.queries:
            _check_covered(query, list(answers.values()))
        tasks = {
            address: {query_id: reached.tasks for query_id, reached in answer.items()}
            for address, answer in answers.items()
        }
        remote_tasks = [
            (participant, tasks[address])
            for address, participant in self._participants.items()
            if isinstance(participant, RemoteParticipant)
        ]
        return AlignedSnapshot(cut, tasks[""], tuple(remote_tasks))

    def release(self) -> None:
        """Release the queries and the snapshots on all instances."""
        for participant in reversed(self._participants.values()):
            try:
                participant.execute(ReleaseSnapshot())
            except MillstreamError as error:
                # The participation of that instance expires.
                logging.getLogger("millstream").debug(str(error).replace("\n", " "))

    def _left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def _execute_on_all(self, step: SnapshotStep) -> dict[str, ProgressByQuery]:
        """Execute one step on all instances concurrently; returns their responses."""
        if len(self._participants) == 1:
            return {
                address: participant.execute(step)
                for address, participant in self._participants.items()
            }
        with ThreadPoolExecutor(len(self._participants), "millstream-snapshot") as pool:
            answers = pool.map(
                lambda participant: participant.execute(step), self._participants.values()
            )
            return dict(zip(self._participants, answers, strict=True))

    def _cut(self, ends: Positions) -> Positions:
        """The cut: the ends of the sources. If a query is stopped, and the lineage has one source
        topic which all its readers have read up to the same positions, the cut is there."""
        lineage = self._lineage
        readers = [
            {
                p: at
                for p, at in self._positions(query, self._held[query.query_id]).items()
                if p in ends
            }
            for query in lineage.queries
            if lineage.sources & query.inputs
        ]
        stopped = any(reached.state in STOPPED for reached in self._held.values())
        if not stopped or len(lineage.sources) != 1:
            return ends
        aligned = all(at == readers[0] for at in readers) and readers[0].keys() == ends.keys()
        return readers[0] if aligned else ends

    def _positions(self, query: QueryTopics, reached: Reached) -> Positions:
        """The positions of a query; committed positions for tasks that are not open."""
        if query.partitions <= reached.positions.keys():
            return reached.positions
        return self._cluster.registry.log.positions(query.query_id) | dict(reached.positions)

    def _check_stopped(self, query: QueryTopics, reached: Reached, bounds: Positions) -> None:
        """Raise StatementError (E-SNAPSHOT) unless a stopped query has read up to `bounds`."""
        positions = self._positions(query, reached)
        for (topic, partition), end in bounds.items():
            at = positions.get((topic, partition))
            if at != end:
                why = f" ({reached.error})" if reached.error else ""
                raise StatementError(
                    f"The tables cannot be read at one moment: query {query.query_id} is in state"
                    f" {reached.state.value}{why} and has read {topic}-{partition} up to"
                    f" {'nothing' if at is None else at}, the others up to {end}",
                    hint="Resume the query, or query one table at a time.",
                    code=NOT_ALIGNED,
                )

    def _check_not_overtaken(self, bounds: Positions) -> None:
        """Raise UnavailableError (E-NOT-READY) if an instance that is no participant has taken over
        tasks and committed beyond the bounds: other queries may have read its output."""
        if self._cluster.routing is None:
            return

        def overtaken_query(query: QueryTopics) -> str:
            committed = self._cluster.registry.log.positions(query.query_id, query.partitions)
            overtaken = any(at > bounds.get(p, at) for p, at in committed.items())
            return query.query_id if overtaken else ""

        with ThreadPoolExecutor(CHECK_THREADS, "millstream-snapshot") as pool:
            for query_id in pool.map(overtaken_query, self._lineage.queries):
                if query_id:
                    raise snapshot_not_ready(f"tasks of {query_id} are being moved")


def consistent_ends(
    cluster: Cluster, partitions: Collection[TopicPartition], until: float
) -> dict[TopicPartition, int]:
    """The end offsets of partitions, as of one moment.

    Ends only grow, so ends that two reads return alike were all valid between the reads. For one
    topic, one read is enough: every query gets the same offsets anyway.
    """
    one_topic = len({topic for topic, _ in partitions}) < 2
    before: dict[TopicPartition, int] = {}
    while True:
        ends = cluster.registry.log.end_offsets(partitions)
        complete = len(ends) == len(partitions)
        if complete and (one_topic or ends == before):
            return ends
        if time.monotonic() > until:
            raise snapshot_not_ready(
                "the ends of their sources cannot be read at one moment: records come too fast"
                if complete
                else "the ends of their sources cannot be read"
            )
        before = ends


def check_lag(cluster: Cluster, query_id: str, reached: Reached) -> None:
    """Raise UnavailableError (E-NOT-READY) if a query is not open yet, or has so many unread
    records that the other queries would be held too long."""
    if reached.state in STOPPED:
        return
    if reached.state is not QueryState.RUNNING:
        raise snapshot_not_ready(f"query {query_id} is being opened or restored")
    ends = cluster.registry.log.end_offsets(tuple(reached.positions))
    left = sum(max(0, end - reached.positions[partition]) for partition, end in ends.items())
    if left > LAG_RECORDS_MAX:
        raise snapshot_not_ready(f"query {query_id} has some {left} records to read yet")


def _merged(query: QueryTopics, answers: Sequence[ProgressByQuery]) -> Reached:
    reached = [answer[query.query_id] for answer in answers if query.query_id in answer]
    if len(reached) < len(answers):
        raise snapshot_not_ready(f"query {query.query_id} is not running on all instances")
    return merged(reached)


def _check_covered(query: QueryTopics, answers: Sequence[ProgressByQuery]) -> None:
    """Raise UnavailableError (E-NOT-READY) unless exactly one instance reads each partition."""
    read = [p for answer in answers for p in answer[query.query_id].positions]
    for partition in sorted(query.partitions):
        if read.count(partition) != 1:
            topic, number = partition
            raise snapshot_not_ready(f"{topic}-{number} is moved, for {query.query_id}")

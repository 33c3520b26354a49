"""Several tables at one moment: every query that feeds them is brought to the same offsets.

The queries are held on all instances that share them, the ends of their sources are read at one
moment, and each query reads up to these and commits, in the order of the data. What it writes is
read up to its end by those behind it. Then every instance keeps a snapshot of its state, all of
which show the tables as of these offsets, and the queries go on.
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

from millstream.log.log import TopicPartition
from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.runtime.alignment import Lineage, QueryTopics, Reached, merged, moved_up_to
from millstream.runtime.query_runner import STOPPED
from millstream.runtime.spec import QueryState
from millstream.service.cluster.participant import Participant, snapshot_not_ready
from millstream.service.cluster.partition_read import PartitionRead
from millstream.service.cluster.routing import Fetch, Gathered
from millstream.service.cluster.steps import Bring, End, Hold, ProgressByQuery, Send, Step, Take
from millstream.service.engine import Engine

NOT_ALIGNED = "E-SNAPSHOT"
HOLD_S = 2.0
"""How long queries are held at most."""
NEAR = 200_000
"""Queries are held only when none of them has more records to read: others go on meanwhile."""
CHECKS = 4
"""How many queries are looked at together."""
END_S = 1.0
"""How long to wait for an instance that is asked to let a snapshot go."""
Positions = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Remote:
    """The part of another instance, at `address`, in the snapshot with this id."""

    address: str
    snapshot_id: str
    send: Send

    def do(self, step: Step) -> ProgressByQuery:
        """See `Participant.do`."""
        seconds = step.seconds if isinstance(step, Hold | Bring) else END_S
        try:
            return self.send(self.address, self.snapshot_id, step, seconds + END_S)
        except UnavailableError as error:
            raise snapshot_not_ready(error.message) from error


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Tables as of one moment: of the sources, the records before the offsets `cut`."""

    cut: Positions
    here: Mapping[str, frozenset[int]] | None
    """The tasks of each query whose state this instance has; None where it has all state."""
    elsewhere: tuple[tuple[Remote, Mapping[str, frozenset[int]]], ...]
    """Other instances, and the tasks that these have."""

    def gather(self, ask: PartitionRead, fetch: Fetch, timeout_ms: int) -> Gathered:
        """The rows that other instances have; UnavailableError (E-NOT-READY) where one of them does
        not keep the snapshot any more."""
        own = ask.partitions if self.here is None else self.here.get(ask.query_id, frozenset())
        rows: list[pa.Table] = []
        for remote, tasks in self.elsewhere:
            partitions = ask.partitions & tasks.get(ask.query_id, frozenset())
            if partitions:
                one = replace(ask, partitions=partitions, snapshot=remote.snapshot_id)
                try:
                    rows.append(fetch(remote.address, one, timeout_ms))
                except UnavailableError as error:
                    raise snapshot_not_ready(error.message) from error
        return Gathered(ask.partitions & own, tuple(rows))


@contextmanager
def aligned(
    engine: Engine, query_ids: Collection[str], cursor: duckdb.DuckDBPyConnection
) -> Iterator[Snapshot]:
    """Within, `cursor`, and what is fetched with the snapshot that this gives, show what these
    queries have made as of one moment.

    UnavailableError (E-NOT-READY) where that cannot be had before HOLD_S are over, StatementError
    (E-SNAPSHOT) where a query stands still somewhere else.
    """
    lineage = engine.runtime.lineage(query_ids)
    for query_id in lineage.query_ids:
        reached = engine.runtime.reached(query_id)
        if reached is not None:
            check_near(engine, query_id, reached)
    alignment = Alignment(engine, lineage, cursor, time.monotonic() + HOLD_S)
    try:
        alignment.hold()
        cut = alignment.bring_all()
        yield alignment.take(cut)
    finally:
        alignment.end()


class Alignment:
    """The queries of one lineage, on all instances that share them, on their way to one cut."""

    def __init__(
        self, engine: Engine, lineage: Lineage, cursor: duckdb.DuckDBPyConnection, until: float
    ) -> None:
        """`cursor` is to see the snapshot, `until` the monotonic time by which it is taken."""
        self._engine = engine
        self._lineage = lineage
        self._until = until
        self._parts: dict[str, Participant | Remote] = {}
        """By address, "" for this instance; always in one order on all instances, so that no two
        of them can wait for each other."""
        self._held: dict[str, Reached] = {}
        routing, snapshot_id = engine.routing, uuid.uuid4().hex
        if routing is None:
            self._parts[""] = Participant(engine, cursor)
            return
        for address in routing.addresses(lineage.query_ids):
            self._parts[address] = (
                Remote(address, snapshot_id, routing.send)
                if address
                else Participant(engine, cursor)
            )

    def hold(self) -> None:
        """Hold the queries on all instances, one instance after the other."""
        query_ids = tuple(sorted(self._lineage.query_ids))
        answers = [part.do(Hold(query_ids, self._left())) for part in self._parts.values()]
        self._held = {query.query_id: _merged(query, answers) for query in self._lineage.queries}
        for query_id, reached in self._held.items():
            check_near(self._engine, query_id, reached)

    def bring_all(self) -> Positions:
        """Bring each query, in the order of the data, to the cut, which this gives."""
        lineage = self._lineage
        sources = [p for q in lineage.queries for p in q.partitions if p[0] in lineage.sources]
        ends = ends_at_one_moment(self._engine, frozenset(sources), self._until)
        cut = self._where_they_stand_still(ends)
        bounds: dict[TopicPartition, int] = dict(cut)
        for query in lineage.queries:
            inner = [p for p in query.partitions if p[0] in query.inputs - lineage.sources]
            # What another instance has committed may not be readable yet, but it is written.
            bounds |= self._engine.log.written_ends(inner)
            bounds |= self.bring(query, bounds)
        self._check_nobody_went_on(bounds)
        return cut

    def bring(self, query: QueryTopics, bounds: Positions) -> Positions:
        """Bring one query to the offsets `bounds` of what it reads, one sub-topology after the
        other; gives these and the offsets of its repartition topics."""
        own = {p: end for p, end in bounds.items() if p in query.partitions}
        while True:
            answers = self._all(Bring(query.query_id, own, self._left()))
            reached = _merged(query, list(answers.values()))
            if reached.state in STOPPED:
                self._check_stopped(query, reached, own)
                return own
            moved = moved_up_to(query, own, reached.positions)
            if not moved:
                return own
            own |= self._engine.log.written_ends(moved)

    def take(self, cut: Positions) -> Snapshot:
        """Have all instances keep a snapshot of their state, and let the queries go on."""
        answers = self._all(Take())
        if self._engine.routing is None:
            return Snapshot(cut, None, ())
        for query in self._lineage.queries:
            _check_covered(query, list(answers.values()))
        tasks = {
            address: {query_id: reached.tasks for query_id, reached in answer.items()}
            for address, answer in answers.items()
        }
        elsewhere = [
            (part, tasks[a]) for a, part in self._parts.items() if isinstance(part, Remote)
        ]
        return Snapshot(cut, tasks[""], tuple(elsewhere))

    def end(self) -> None:
        """Let everything go that is still held or kept."""
        for part in reversed(self._parts.values()):
            try:
                part.do(End())
            except MillstreamError as error:
                # It ends by itself there.
                logging.getLogger("millstream").debug(str(error).replace("\n", " "))

    def _left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def _all(self, step: Step) -> dict[str, ProgressByQuery]:
        """The answers of all instances to one step, which they do at the same time."""
        if len(self._parts) == 1:
            return {address: part.do(step) for address, part in self._parts.items()}
        with ThreadPoolExecutor(len(self._parts), "millstream-snapshot") as pool:
            answers = pool.map(lambda part: part.do(step), self._parts.values())
            return dict(zip(self._parts, answers, strict=True))

    def _where_they_stand_still(self, ends: Positions) -> Positions:
        """The offsets to read up to. Queries of one source that are paused, or have failed, can be
        read where they stand if all stand there; everything else ends where its source does."""
        lineage = self._lineage
        standing = [
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
        whole = all(at == standing[0] for at in standing) and standing[0].keys() == ends.keys()
        return standing[0] if whole else ends

    def _positions(self, query: QueryTopics, reached: Reached) -> Positions:
        """How far a query has come; for tasks that are not open, what they have committed."""
        if query.partitions <= reached.positions.keys():
            return reached.positions
        return self._engine.log.positions(query.query_id) | dict(reached.positions)

    def _check_stopped(self, query: QueryTopics, reached: Reached, bounds: Positions) -> None:
        """A query that stands still does no harm where there is nothing that it has not read."""
        positions = self._positions(query, reached)
        for (topic, partition), end in bounds.items():
            at = positions.get((topic, partition))
            if at != end:
                why = f" ({reached.error})" if reached.error else ""
                raise StatementError(
                    f"The tables cannot be read at one moment: query {query.query_id} is in state"
                    f" {reached.state.value}{why} and has read {topic}-{partition} up to"
                    f" {'nothing' if at is None else at}, the others up to {end}",
                    hint="Resume the query, or ask for one table at a time.",
                    code=NOT_ALIGNED,
                )

    def _check_nobody_went_on(self, bounds: Positions) -> None:
        """UnavailableError (E-NOT-READY) where tasks have moved to an instance that takes no part,
        and that has committed what lies behind the bounds: what it wrote may have been read."""
        if self._engine.routing is None:
            return

        def behind(query: QueryTopics) -> str:
            committed = self._engine.log.positions(query.query_id, query.partitions)
            went_on = any(at > bounds.get(p, at) for p, at in committed.items())
            return query.query_id if went_on else ""

        with ThreadPoolExecutor(CHECKS, "millstream-snapshot") as pool:
            for query_id in pool.map(behind, self._lineage.queries):
                if query_id:
                    raise snapshot_not_ready(f"tasks of {query_id} are being moved")


def ends_at_one_moment(
    engine: Engine, partitions: Collection[TopicPartition], until: float
) -> dict[TopicPartition, int]:
    """The ends of partitions, all as of one moment: they were the same before and after it."""
    one_topic = len({topic for topic, _ in partitions}) < 2
    before: dict[TopicPartition, int] = {}
    while True:
        ends = engine.log.end_offsets(partitions)
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


def check_near(engine: Engine, query_id: str, reached: Reached) -> None:
    """UnavailableError (E-NOT-READY) where a query has so much to read that the others would have
    to stand still for long."""
    if reached.state in STOPPED:
        return
    if reached.state is not QueryState.RUNNING:
        raise snapshot_not_ready(f"query {query_id} is being opened or restored")
    ends = engine.log.end_offsets(tuple(reached.positions))
    left = sum(max(0, end - reached.positions[partition]) for partition, end in ends.items())
    if left > NEAR:
        raise snapshot_not_ready(f"query {query_id} has some {left} records to read yet")


def _merged(query: QueryTopics, answers: Sequence[ProgressByQuery]) -> Reached:
    parts = [answer[query.query_id] for answer in answers if query.query_id in answer]
    if len(parts) < len(answers):
        raise snapshot_not_ready(f"query {query.query_id} is not running on all instances")
    return merged(parts)


def _check_covered(query: QueryTopics, answers: Sequence[ProgressByQuery]) -> None:
    """UnavailableError (E-NOT-READY) unless each partition is read by one instance."""
    read = [p for answer in answers for p in answer[query.query_id].positions]
    for partition in sorted(query.partitions):
        if read.count(partition) != 1:
            topic, number = partition
            raise snapshot_not_ready(f"{topic}-{number} is moved, for {query.query_id}")

"""One persistent query carried by a pipeline: an epoch of it is one run and one transaction.

Why so: docs/adr/0017-pipeline.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from millstream.history.splits import Run, Split, changelogs, inputs, since
from millstream.history.task import Produced, Superseded
from millstream.log.identity import check_topics
from millstream.log.log import Appended, TopicPartition
from millstream.log.settled import await_settled
from millstream.model.problem import Problem
from millstream.service import queries
from millstream.service.command_topic import following
from millstream.service.engine import Engine
from millstream.service.history.running import run_of
from millstream.service.pipeline.tasks import ExclusiveAssignment

Runner = Callable[[Run], Iterator[Produced]]
"""Runs the tasks of a run, in this process or elsewhere."""


@dataclass(frozen=True, slots=True)
class Advance:
    """What an epoch has done for a query: records read (on Kafka with the ends of transactions),
    records written to its sink, and rows that were no use."""

    query_id: str
    read: int
    written: int
    problems: int


class Carried:
    """One query as it is defined now, and this process's part in the group that shares its
    tasks."""

    def __init__(self, engine: Engine, query_id: str) -> None:
        """The query must be in the catalog, which must not change meanwhile."""
        self.query_id = query_id
        self._engine = engine
        self._planned = engine.plans[query_id]
        self._topics = engine.topics.get(query_id, ())
        self._properties = engine.catalog.queries[query_id].properties
        self._topology = queries.topology_of(engine, query_id, self._planned)
        self._inputs = frozenset(inputs(self._topology))
        self._inner = queries.repartitions_of(self._topology)
        count = max(sub.partitions for sub in self._topology.subtopologies)
        self._tasks = ExclusiveAssignment(engine.log, query_id, count)

    @property
    def current(self) -> bool:
        """Whether the query is still defined so, and nobody wants it to stand still."""
        standing = self._engine.ledger.standing
        held = standing is not None and standing.hold.query_id == self.query_id
        return self._engine.plans.get(self.query_id) is self._planned and not held

    def ask(self) -> bool:
        """Ask for the tasks, which may take a while to come; not where the query is to stand
        still. UnavailableError (code E-PIPELINE-BUSY) while others have them."""
        if self.current:
            self._tasks.ask()
        return self.current

    def step_aside(self) -> None:
        """Leave the tasks to others who want them, unless they are being worked on."""
        self._tasks.step_aside(wanted=not self.current)

    def advance(self, runner: Runner) -> Advance | None:
        """Process all that has come since the last time, and commit it; None when nothing has, or
        the query is not `current` any more.

        Raises what stops the query; UnavailableError when it may be tried again: nothing has
        happened then, or all of it.
        """
        with self._tasks.held(self._taken):
            return self._advanced(runner) if self.current else None

    def close(self) -> None:
        """Leave the group; idempotent."""
        self._tasks.close()

    def _taken(self) -> None:
        """The tasks were somebody else's, perhaps: he may have left records that are not settled,
        and words on the command topic that were not read here
        (`service/threads/catch_up_gate.py`)."""
        engine = self._engine
        if engine.shared:
            with engine.driver.lock:
                following.catch_up(engine)
            engine.log.positions(self.query_id, self._inputs)
            own = (at for at in self._inputs if at[0] in self._inner)
            await_settled(engine.log, (*own, *changelogs(self._topology)))

    def _advanced(self, runner: Runner) -> Advance | None:
        engine = self._engine
        check_topics(engine.log, self._topics)
        positions = engine.log.positions(self.query_id, self._inputs)
        splits = since(engine.log, self._topology, positions)
        read = sum(
            splits[topic_partition].end - splits[topic_partition].start
            for topic_partition in self._inputs
        )
        if read == 0:
            return None
        produced = list(runner(run_of(engine, self._topology, splits, self._properties)))
        records = tuple(item for item in produced if isinstance(item, Appended))
        problems = tuple(item for item in produced if isinstance(item, Problem))
        self._tasks.commit(
            records,
            {topic_partition: splits[topic_partition].end for topic_partition in self._inputs},
        )
        self._forget(splits, produced)
        if problems:
            engine.processing_log.add(self.query_id, problems)
        sink = self._topology.subtopologies[-1].output
        written = sum(item.count for item in records if item.topic == sink)
        return Advance(self.query_id, read, written, sum(problem.count for problem in problems))

    def _forget(self, splits: Mapping[TopicPartition, Split], produced: Iterable[Produced]) -> None:
        """Delete consumed records of repartition topics, and changelogs behind snapshots."""
        log = self._engine.log
        for (topic, partition), split in splits.items():
            if topic in self._inner and split.end > split.start:
                log.truncate(topic, partition, split.end)
        for item in produced:
            if isinstance(item, Superseded):
                end = splits[item.topic, item.partition].end
                log.truncate(item.topic, item.partition, end + item.records)

"""One persistent query of a pipeline. An epoch of it is one bounded run and one transaction.

The design is explained in docs/adr/0017-pipeline.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from millstream.command_topic import following
from millstream.command_topic.command_topic import CommandTopic
from millstream.historical.running import run_of
from millstream.history.splits import Run, Split, changelogs, inputs, since
from millstream.history.task import Produced, Superseded
from millstream.log.identity import check_topics
from millstream.log.log import Appended, TopicPartition
from millstream.log.settled import await_settled
from millstream.model.problem import Problem
from millstream.pipeline.tasks import ExclusiveAssignment
from millstream.queries import starting

Runner = Callable[[Run], Iterator[Produced]]
"""Runs the tasks of a run, in this process or on Spark."""


@dataclass(frozen=True, slots=True)
class Advance:
    """The counts of one epoch of a query: records read (on Kafka including transaction markers),
    records written to its sink, and rows that could not be processed."""

    query_id: str
    read: int
    written: int
    problems: int


class PipelineQuery:
    """One definition of a query, and this process's membership in the group that shares its
    tasks."""

    def __init__(self, command_topic: CommandTopic, query_id: str) -> None:
        """The query must be in the catalog, and the catalog must not change during the call."""
        self.query_id = query_id
        registry = command_topic.registry
        self._command_topic = command_topic
        self._registry = registry
        self._planned = registry.plans[query_id]
        self._topics = registry.topics.get(query_id, ())
        self._properties = registry.catalog.queries[query_id].properties
        self._topology = starting.topology_of(registry, query_id, self._planned)
        self._inputs = frozenset(inputs(self._topology))
        self._repartitions = starting.repartitions_of(self._topology)
        count = max(sub.partitions for sub in self._topology.subtopologies)
        self._tasks = ExclusiveAssignment(registry.log, query_id, count)

    @property
    def current(self) -> bool:
        """Whether the query still has this definition, and no instance holds it to replace it."""
        quiesced = self._command_topic.state.quiesced
        held = quiesced is not None and quiesced.request.query_id == self.query_id
        return self._registry.plans.get(self.query_id) is self._planned and not held

    def request_tasks(self) -> bool:
        """Join the query's group if the query is `current`, and return whether it is. The tasks may
        be assigned later. Raises UnavailableError (E-PIPELINE-BUSY) while other instances are in
        the group."""
        if self.current:
            self._tasks.join()
        return self.current

    @property
    def shared(self) -> bool:
        """Whether other instances have got tasks of the query."""
        return self._tasks.shared

    def yield_tasks(self, *, force: bool) -> None:
        """Leave the group if other instances are in it, or the query is not `current`, or with
        `force` in any case. During an epoch, leave after it."""
        self._tasks.yield_tasks(force=force or not self.current)

    def advance(self, runner: Runner) -> Advance | None:
        """Process and commit the records since the previous epoch. Returns None if there are none,
        or the query is no longer `current`.

        Raises the error that stops the query. UnavailableError may be retried: the epoch was
        committed completely or not at all.
        """
        with self._tasks.held(self._catch_up):
            return self._advanced(runner) if self.current else None

    def close(self) -> None:
        """Leave the group; idempotent."""
        self._tasks.close()

    def _catch_up(self) -> None:
        """Prepare for newly assigned tasks. Another instance may have had them: wait until its
        transactions are settled, and read its commands from the command topic
        (`scheduler/catch_up_gate.py`)."""
        registry = self._registry
        if registry.shared:
            with registry.driver.lock:
                following.catch_up(self._command_topic)
            registry.log.positions(self.query_id, self._inputs)
            repartitions = (at for at in self._inputs if at[0] in self._repartitions)
            await_settled(registry.log, (*repartitions, *changelogs(self._topology)))

    def _advanced(self, runner: Runner) -> Advance | None:
        registry = self._registry
        check_topics(registry.log, self._topics)
        positions = registry.log.positions(self.query_id, self._inputs)
        splits = since(registry.log, self._topology, positions)
        read = sum(
            splits[topic_partition].end - splits[topic_partition].start
            for topic_partition in self._inputs
        )
        if read == 0:
            return None
        produced = list(runner(run_of(registry, self._topology, splits, self._properties)))
        records = tuple(item for item in produced if isinstance(item, Appended))
        problems = tuple(item for item in produced if isinstance(item, Problem))
        dead = starting.dead_letters_of(registry, self._properties)
        self._tasks.commit(
            (*records, *dead.letters(problems)),
            {topic_partition: splits[topic_partition].end for topic_partition in self._inputs},
        )
        self._truncate(splits, produced)
        if problems:
            registry.report(self.query_id, problems)
        sink = self._topology.subtopologies[-1].output
        written = sum(item.count for item in records if item.topic == sink)
        return Advance(self.query_id, read, written, sum(problem.count for problem in problems))

    def _truncate(
        self, splits: Mapping[TopicPartition, Split], produced: Iterable[Produced]
    ) -> None:
        """Delete consumed records of repartition topics, and the changelog records that a snapshot
        replaces."""
        log = self._registry.log
        for (topic, partition), split in splits.items():
            if topic in self._repartitions and split.end > split.start:
                log.truncate(topic, partition, split.end)
        for item in produced:
            if isinstance(item, Superseded):
                end = splits[item.topic, item.partition].end
                log.truncate(item.topic, item.partition, end + item.records)

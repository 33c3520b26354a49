"""The input and topology of a bounded run, fixed before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from millstream.executor.compaction import Pace
from millstream.log.checks import check_offset
from millstream.log.log import Log, TopicPartition
from millstream.model.schema_text import Schemas
from millstream.model.settings import EngineSettings
from millstream.runtime.spec import places_of
from millstream.topology.topology import SourceInput, SubTopology, Topology, channels_of

MEMORY_LIMIT = EngineSettings().history_memory_limit
_FROM_THE_FIRST: Mapping[TopicPartition, int] = MappingProxyType({})
AT_ONCE = Pace(piece=1 << 60)
"""A task ends with its run, so a snapshot cannot be spread over commits."""


@dataclass(frozen=True, slots=True)
class Split:
    """The records of one partition with offsets in [start, end)."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Run:
    """A topology over splits: everything that determines the result.

    * `splits`: by (topic, partition) of its sources; a partition without one has no records. For a
      run that continues from committed positions, they also hold the contents of its repartition
      topics, which come before newly sent rows, and its changelogs: tasks begin with the existing
      state.
    * `widths`: the partition counts of the topics that it writes to, including its own repartition
      topics.
    * `cached`: for a table, only the last row of each key matters; most others are left out.
    * `by_arrival`: records are processed in the order of their arrival at the log.
    * `fatal`: kinds of problems in the input that end the run instead of being reported.
    * `changes`: tasks also return what they would append to their changelogs.
    * `pace`: when tasks that begin with a state add a snapshot of it.
    * `memory_limit`: the memory that DuckDB may use in each process that runs tasks, before it
      spills to disk.
    * `schemas`: the schema registry; where tasks are sent to other processes, what it knows then.
    * `limit`: the number of output rows to return of a stream; each task of the last sub-topology
      ends when it has produced them, and reads no further.
    """

    topology: Topology
    splits: Mapping[TopicPartition, Split]
    widths: Mapping[str, int]
    cached: bool = False
    fatal: frozenset[str] = frozenset()
    by_arrival: bool = False
    changes: bool = False
    pace: Pace = AT_ONCE
    limit: int | None = None
    schemas: Schemas | None = field(default=None, compare=False)
    memory_limit: str = MEMORY_LIMIT

    @property
    def records(self) -> int:
        """The most records to read."""
        return sum(split.end - split.start for split in self.splits.values())

    def widths_of(self, sub: SubTopology) -> int:
        """The partition count of a sub-topology's output topic."""
        return 1 if sub.output is None else self.widths[sub.output]

    @property
    def inner(self) -> frozenset[str]:
        """The topics between its sub-topologies."""
        topics = self.topology.internal_topics
        return frozenset(item.name for item in topics if item.kind == "repartition")

    def reader_of(self, topic: str) -> int:
        """The number of the sub-topology that reads a topic between them."""
        return next(
            sub.index
            for sub in self.topology.subtopologies
            if any(item.topic == topic for item in sub.inputs)
        )


def places(topology: Topology) -> Iterator[TopicPartition]:
    """The partitions of its sources that a topology reads."""
    for sub in topology.subtopologies:
        for item in sub.inputs:
            if isinstance(item, SourceInput):
                yield from ((item.topic, partition) for partition in range(sub.partitions))


def everything(log: Log[Any], topology: Topology) -> dict[TopicPartition, Split]:
    """Everything that the sources of a topology hold now."""
    return whole(log, places(topology))


def since(
    log: Log[Any], topology: Topology, committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Split]:
    """Everything behind the committed positions, and the current changelogs. Raises CorruptionError
    (code E-TRUNCATED) where a partition ends before a position."""
    found = whole(log, (*inputs(topology), *changelogs(topology)), committed)
    for (topic, partition), split in found.items():
        check_offset(topic, partition, split.start, 0, split.end)
    return found


def inputs(topology: Topology) -> Iterator[TopicPartition]:
    """The partitions that a topology reads, including those between its sub-topologies."""
    for sub in topology.subtopologies:
        for task in range(sub.partitions):
            yield from read_by(sub, task)


def read_by(sub: SubTopology, task: int) -> Iterator[TopicPartition]:
    """The partitions that one task reads."""
    topics = (item.topic for item in sub.inputs)
    return places_of(topics, sub.partitions, channels_of(sub), task)


def changelogs(topology: Topology) -> Iterator[TopicPartition]:
    """The partitions of its changelogs."""
    for sub in topology.subtopologies:
        if sub.changelog is not None:
            yield from ((sub.changelog, partition) for partition in range(sub.partitions))


def whole(
    log: Log[Any],
    wanted: Iterable[TopicPartition],
    starts: Mapping[TopicPartition, int] = _FROM_THE_FIRST,
) -> dict[TopicPartition, Split]:
    """Everything that partitions hold now, from `starts` on, else from the first retained
    record."""
    wanted = tuple(wanted)
    ends = log.end_offsets(wanted)
    return {
        place: Split(
            *place,
            starts[place] if place in starts else log.start_offset(*place),
            ends[place] if place in ends else log.end_offset(*place),
        )
        for place in wanted
    }


def widths_of(topology: Topology, log: Log[Any]) -> dict[str, int]:
    """The partitions of all topics that a topology writes to; a sink that does not exist has
    one."""
    widths = {item.name: item.tasks for item in topology.internal_topics}
    for sub in topology.subtopologies:
        if sub.output is not None and sub.output not in widths:
            found = log.topic(sub.output)
            widths[sub.output] = 1 if found is None else found.partitions
    return widths

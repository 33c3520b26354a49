"""What a bounded run reads and runs, fixed before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from millstream.executor.compaction import Pace
from millstream.log.checks import check_offset
from millstream.log.log import Log, TopicPartition
from millstream.model.settings import EngineSettings
from millstream.runtime.spec import places_of
from millstream.topology.topology import SourceInput, SubTopology, Topology, lanes_of

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
    """A topology over splits: everything the result depends on.

    * `splits`: by (topic, partition) of its sources; a partition without one has no records. Of a
      run that goes on from committed positions also what its repartition topics hold, which comes
      before what is sent on the way, and its changelogs: tasks begin with the state that is there.
    * `widths`: partitions of the topics that it writes to, its own repartition topics included.
    * `cached`: of a table, only the last rows of each key count: most others are left out.
    * `by_arrival`: records are taken in the order in which they arrived at the log.
    * `fatal`: kinds of problems in the input that end the run instead of being reported.
    * `changes`: tasks also hand out what they would append to their changelogs.
    * `pace`: when those who begin with a state add a snapshot of it.
    * `memory_limit`: what DuckDB may use in each process that runs tasks, before it spills to disk.
    * `limit`: so many rows of a stream are wanted of what goes out; each task of the last
      sub-topology ends when it has made them, and reads no further.
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
    memory_limit: str = MEMORY_LIMIT

    @property
    def records(self) -> int:
        """How many are read at most."""
        return sum(split.end - split.start for split in self.splits.values())

    def widths_of(self, sub: SubTopology) -> int:
        """The partitions of what a sub-topology writes to."""
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
    """All that the sources of a topology hold now."""
    return whole(log, places(topology))


def since(
    log: Log[Any], topology: Topology, committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Split]:
    """All that has come behind committed positions, and the changelogs as they are now.
    CorruptionError (code E-TRUNCATED) where a partition ends before a position."""
    found = whole(log, (*inputs(topology), *changelogs(topology)), committed)
    for (topic, partition), split in found.items():
        check_offset(topic, partition, split.start, 0, split.end)
    return found


def inputs(topology: Topology) -> Iterator[TopicPartition]:
    """The partitions that a topology reads, those between its sub-topologies included."""
    for sub in topology.subtopologies:
        for task in range(sub.partitions):
            yield from read_by(sub, task)


def read_by(sub: SubTopology, task: int) -> Iterator[TopicPartition]:
    """The partitions that one task reads."""
    topics = (item.topic for item in sub.inputs)
    return places_of(topics, sub.partitions, lanes_of(sub), task)


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
    """All that partitions hold now, from `starts` on, else from the first record that there is."""
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
    """The partitions of all topics that a topology writes to; a sink that is not there has one."""
    widths = {item.name: item.tasks for item in topology.internal_topics}
    for sub in topology.subtopologies:
        if sub.output is not None and sub.output not in widths:
            found = log.topic(sub.output)
            widths[sub.output] = 1 if found is None else found.partitions
    return widths

"""Finds the queries that feed some tables, and how far each of them has read.

Tables show a consistent moment when every query that feeds them has read each topic up to one
offset. The queries of a lineage reach it in the order of the data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from millstream.log.log import Batch, TopicPartition
from millstream.runtime.query_runner import STOPPED, QueryRunner
from millstream.runtime.spec import QueryState


@dataclass(frozen=True, slots=True)
class SubTopologyTopics:
    """The topics of one sub-topology, including repartition topics of its query, and the partitions
    that its tasks read, on any instance."""

    inputs: frozenset[str]
    outputs: frozenset[str]
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class QueryTopics:
    """The topics that a query reads and writes, without its internal ones. `sub_topologies`: its
    sub-topologies in the order of the data."""

    query_id: str
    inputs: frozenset[str]
    outputs: frozenset[str]
    sub_topologies: tuple[SubTopologyTopics, ...] = ()

    @property
    def result_topics(self) -> frozenset[str]:
        """The topics that hold its results, or those that it keeps as tables."""
        return self.outputs or self.inputs

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """All partitions that its tasks read, on any instance."""
        return frozenset().union(*(sub.partitions for sub in self.sub_topologies))


@dataclass(frozen=True, slots=True)
class Lineage:
    """Queries in the order of the data, and the topics that they read and that none before them
    writes."""

    queries: tuple[QueryTopics, ...]
    sources: frozenset[str]

    @property
    def query_ids(self) -> frozenset[str]:
        """The ids of the queries."""
        return frozenset(query.query_id for query in self.queries)


def lineage(known: Sequence[QueryTopics], wanted: Collection[str]) -> Lineage:
    """The `wanted` queries and all queries that write, directly or indirectly, what these read. A
    topic that is written after a query that reads it (a loop) counts as a source."""
    found = {query.query_id: query for query in known if query.query_id in wanted}
    new = list(found.values())
    while new:
        inputs = frozenset().union(*(query.inputs for query in new))
        new = [one for one in known if one.query_id not in found and one.outputs & inputs]
        found |= {query.query_id: query for query in new}
    ordered = _ordered(list(found.values()))
    topic_partition = {query.query_id: index for index, query in enumerate(ordered)}
    sources = {
        topic
        for reader in ordered
        for topic in reader.inputs
        if all(topic not in writer.outputs for writer in ordered)
        or any(
            topic in writer.outputs
            and topic_partition[writer.query_id] >= topic_partition[reader.query_id]
            for writer in ordered
        )
    }
    return Lineage(tuple(ordered), frozenset(sources))


def feeding(known: Sequence[QueryTopics], topics: Collection[str]) -> frozenset[str]:
    """The ids of the queries that write these topics or what those that do read, directly or
    indirectly. A query without outputs keeps its inputs as tables, and counts as writing them."""
    found: set[str] = set()
    wanted = frozenset(topics)
    while wanted:
        new = [one for one in known if one.query_id not in found and one.result_topics & wanted]
        found |= {one.query_id for one in new}
        wanted = frozenset().union(*(one.inputs for one in new))
    return frozenset(found)


def _ordered(queries: list[QueryTopics]) -> list[QueryTopics]:
    """The queries in an order in which each follows those that write its input, except in loops."""
    ordered: list[QueryTopics] = []
    left = queries
    while left:
        unwritten = (
            query
            for query in left
            if not any(query.inputs & other.outputs for other in left if other is not query)
        )
        following = next(unwritten, left[0])
        ordered.append(following)
        left = [query for query in left if query is not following]
    return ordered


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a query has read on one instance.

    `tasks`: the partitions of the open tasks; `positions`: their positions; `committed`: whether
    nothing waits for a commit.
    """

    state: QueryState
    error: str
    tasks: frozenset[int]
    positions: Mapping[TopicPartition, int]
    committed: bool


def merged(parts: Sequence[Reached]) -> Reached:
    """How far a query has read on the instances that share its tasks. An instance where it has
    stopped, or does not run yet, determines the state."""
    positions = {partition: at for part in parts for partition, at in part.positions.items()}
    worst = min(parts, key=lambda part: _urgency(part.state))
    tasks = frozenset().union(*(part.tasks for part in parts))
    committed = all(part.committed for part in parts)
    return Reached(worst.state, worst.error, tasks, positions, committed)


def _urgency(state: QueryState) -> int:
    return 2 if state is QueryState.RUNNING else 0 if state in STOPPED else 1


def read_up_to(
    query: QueryTopics, bounds: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The subset of `bounds` that a query can be advanced to: all inputs of the sub-topology end
    there. Another sub-topology may have to wait for rows that its query has not moved yet."""
    return {
        partition: bounds[partition]
        for sub in query.sub_topologies
        if sub.partitions <= bounds.keys()
        for partition in sub.partitions
    }


def moved_up_to(
    query: QueryTopics,
    bounds: Mapping[TopicPartition, int],
    positions: Mapping[TopicPartition, int],
) -> frozenset[TopicPartition]:
    """The repartition topic partitions without a bound whose writing sub-topologies have read all
    of their input up to `bounds`: their bound is the log's current end."""
    read = {partition for partition, end in bounds.items() if positions.get(partition, -1) >= end}
    moving = (sub for sub in query.sub_topologies if not sub.partitions <= read)
    still_written = frozenset().union(*(sub.outputs for sub in moving))
    return frozenset(
        partition
        for partition in query.partitions - bounds.keys()
        if partition[0] not in query.inputs | still_written
    )


def inputs_and_outputs(execution: QueryRunner[Batch]) -> QueryTopics:
    """The external topics of a query, without its sub-topologies."""
    spec = execution.spec
    inputs = frozenset(topic for executor in spec.executors for topic in executor.inputs)
    outputs = frozenset(topic for executor in spec.executors for topic in executor.outputs)
    return QueryTopics(spec.query_id, inputs - spec.repartitions, outputs - spec.repartitions)


def topics_of(execution: QueryRunner[Batch]) -> QueryTopics:
    """The external topics of a query."""
    spec = execution.spec
    sub_topologies = tuple(
        SubTopologyTopics(
            frozenset(executor.inputs),
            frozenset(executor.outputs),
            frozenset(
                p for task in range(executor.partitions) for p in executor.topic_partitions(task)
            ),
        )
        for executor in spec.executors
    )
    return replace(inputs_and_outputs(execution), sub_topologies=sub_topologies)


def reached_by(execution: QueryRunner[Batch]) -> Reached:
    """How far a query has read."""
    return Reached(
        execution.state,
        execution.retry_state.error,
        frozenset(task.id.partition for task in execution.runners.tasks()),
        execution.positions(),
        not execution.dirty,
    )

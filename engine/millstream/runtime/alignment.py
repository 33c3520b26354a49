"""Which queries feed some tables, and how far each of them has come.

Tables show one moment when every query that feeds them has read each topic up to one offset. The
queries of a lineage are brought there in the order of the data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from millstream.log.log import Batch, TopicPartition
from millstream.runtime.execution import Execution
from millstream.runtime.spec import QueryState


@dataclass(frozen=True, slots=True)
class QueryTopics:
    """The topics that a query reads and writes, without those that are its own."""

    query_id: str
    inputs: frozenset[str]
    outputs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Lineage:
    """Queries in the order of the data, and the topics that they read and none before them
    writes."""

    queries: tuple[QueryTopics, ...]
    sources: frozenset[str]

    @property
    def query_ids(self) -> frozenset[str]:
        """The ids of the queries."""
        return frozenset(query.query_id for query in self.queries)


def lineage(known: Sequence[QueryTopics], wanted: Collection[str]) -> Lineage:
    """The `wanted` queries and all that write, directly or not, what these read. A topic that is
    written behind a query that reads it (a loop) counts as a source."""
    found = {query.query_id: query for query in known if query.query_id in wanted}
    new = list(found.values())
    while new:
        inputs = frozenset().union(*(query.inputs for query in new))
        new = [one for one in known if one.query_id not in found and one.outputs & inputs]
        found |= {query.query_id: query for query in new}
    ordered = _ordered(list(found.values()))
    place = {query.query_id: index for index, query in enumerate(ordered)}
    sources = {
        topic
        for reader in ordered
        for topic in reader.inputs
        if all(topic not in writer.outputs for writer in ordered)
        or any(
            topic in writer.outputs and place[writer.query_id] >= place[reader.query_id]
            for writer in ordered
        )
    }
    return Lineage(tuple(ordered), frozenset(sources))


def _ordered(queries: list[QueryTopics]) -> list[QueryTopics]:
    """Each query behind those that write what it reads, but where these form a loop."""
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
    """How far a query has come. `positions`: of all partitions that its open tasks read;
    `committed`: whether nothing waits for a commit. `own`: its repartition topics."""

    state: QueryState
    error: str
    positions: Mapping[TopicPartition, int]
    committed: bool
    own: frozenset[str]


def topics_of(execution: Execution[Batch]) -> QueryTopics:
    """The topics of a query, seen from outside."""
    spec = execution.spec
    inputs = frozenset(topic for kernel in spec.kernels for topic in kernel.inputs)
    outputs = frozenset(topic for kernel in spec.kernels for topic in kernel.outputs)
    return QueryTopics(spec.query_id, inputs - spec.repartitions, outputs - spec.repartitions)


def reached_by(execution: Execution[Batch]) -> Reached:
    """How far a query has come; one that has given up its tasks has what it committed last."""
    return Reached(
        execution.state,
        execution.trouble.error,
        execution.positions() or dict(execution.committed),
        not execution.dirty,
        execution.spec.repartitions,
    )

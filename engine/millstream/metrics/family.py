"""Definitions of metrics for Prometheus: name, type, meaning, labels and the function that gives
the values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from millstream.metrics.figures import (
    BackfillMetrics,
    EngineMetrics,
    QueryMetrics,
    SubTopologyMetrics,
)

Number = int | float
Labels = tuple[tuple[str, str], ...]
Point = tuple[str, Labels, Number | None]
"""A suffix of the name, labels, and a value. If the value is None, no line is printed."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. `kind` is its type: counter, gauge or histogram."""

    name: str
    kind: str
    meaning: str
    labels: tuple[str, ...]
    points: Callable[[EngineMetrics], Iterable[Point]]


def of_engine(
    name: str, kind: str, meaning: str, value: Callable[[EngineMetrics], Number | None]
) -> Family:
    """A metric of the engine as a whole."""
    return Family(f"millstream_{name}", kind, meaning, (), lambda m: [("", (), value(m))])


def of_query(
    name: str, kind: str, meaning: str, value: Callable[[QueryMetrics], Number | None]
) -> Family:
    """A metric of each query, labelled with its id."""

    def points(metrics: EngineMetrics) -> Iterator[Point]:
        return (("", query_label(query), value(query)) for query in metrics.queries)

    return Family(f"millstream_query_{name}", kind, meaning, ("query",), points)


def of_sub_topology(
    name: str, kind: str, meaning: str, value: Callable[[SubTopologyMetrics], Number | None]
) -> Family:
    """A metric of each sub-topology, labelled with its query and number."""

    def points(metrics: EngineMetrics) -> Iterator[Point]:
        for query in metrics.queries:
            for sub in query.sub_topologies:
                yield "", (*query_label(query), ("sub_topology", str(sub.index))), value(sub)

    labels = ("query", "sub_topology")
    return Family(f"millstream_sub_topology_{name}", kind, meaning, labels, points)


def of_backfill(name: str, meaning: str, value: Callable[[BackfillMetrics], Number]) -> Family:
    """A metric of each stage of a back-fill job, labelled with the sink of the query."""

    def points(metrics: EngineMetrics) -> Iterator[Point]:
        for stage in metrics.backfills:
            yield "", (("sink", stage.sink), ("stage", stage.stage)), value(stage)

    return Family(f"millstream_backfill_{name}", "gauge", meaning, ("sink", "stage"), points)


def query_label(query: QueryMetrics) -> Labels:
    """The label that all of a query's metrics have."""
    return (("query", query.query_id),)

"""Definitions of metrics for Prometheus: name, type, meaning, labels and the function that gives
the values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from millstream.metrics.figures import (
    BackfillMetrics,
    EngineMetrics,
    QueryMetrics,
    SubTopologyMetrics,
)
from millstream.runtime.durations import Durations

Number = int | float
Kind = Literal["counter", "gauge"]
LabelValues = tuple[str, ...]
Point = tuple[LabelValues, Number | None]
"""The values of the labels, and that of the metric; one without a value is left out."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """One metric whose values are numbers."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...]
    points: Callable[[EngineMetrics], Iterable[Point]]


@dataclass(frozen=True, slots=True)
class Histogram:
    """One metric whose values are distributions of durations, in seconds."""

    name: str
    meaning: str
    labels: tuple[str, ...]
    points: Callable[[EngineMetrics], Iterable[tuple[LabelValues, Durations]]]
    kind: Literal["histogram"] = "histogram"


Family = Numbers | Histogram


def of_engine(
    name: str, kind: Kind, meaning: str, value: Callable[[EngineMetrics], Number | None]
) -> Numbers:
    """A metric of the engine as a whole."""
    return Numbers(f"millstream_{name}", kind, meaning, (), lambda m: [((), value(m))])


def of_query(
    name: str, kind: Kind, meaning: str, value: Callable[[QueryMetrics], Number | None]
) -> Numbers:
    """A metric of each query, labelled with its id."""

    def points(metrics: EngineMetrics) -> Iterator[Point]:
        return (((query.query_id,), value(query)) for query in metrics.queries)

    return Numbers(f"millstream_query_{name}", kind, meaning, ("query",), points)


def of_sub_topology(
    name: str, kind: Kind, meaning: str, value: Callable[[SubTopologyMetrics], Number | None]
) -> Numbers:
    """A metric of each sub-topology, labelled with its query and number."""

    def points(metrics: EngineMetrics) -> Iterator[Point]:
        for query in metrics.queries:
            for sub in query.sub_topologies:
                yield (query.query_id, str(sub.index)), value(sub)

    labels = ("query", "sub_topology")
    return Numbers(f"millstream_sub_topology_{name}", kind, meaning, labels, points)


def of_backfill(name: str, meaning: str, value: Callable[[BackfillMetrics], Number]) -> Numbers:
    """A metric of each stage of a back-fill job, labelled with the sink of the query."""

    def points(metrics: EngineMetrics) -> Iterator[Point]:
        for stage in metrics.backfills:
            yield (stage.sink, stage.stage), value(stage)

    return Numbers(f"millstream_backfill_{name}", "gauge", meaning, ("sink", "stage"), points)

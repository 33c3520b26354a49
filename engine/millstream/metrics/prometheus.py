"""Writes the metrics of an engine as text for Prometheus, by its library for Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import assert_never

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.openmetrics import exposition as openmetrics_text
from prometheus_client.registry import Collector

from millstream.metrics.families import FAMILIES
from millstream.metrics.family import Family, Histogram, Numbers
from millstream.metrics.figures import EngineMetrics
from millstream.metrics.sampling import SECOND_NS
from millstream.runtime.durations import BOUNDS_MS, Durations

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The Content-Type of `exposition`."""
OPENMETRICS_CONTENT_TYPE = openmetrics_text.CONTENT_TYPE_LATEST
"""The Content-Type of `exposition` in the format of OpenMetrics."""
_BOUNDS = (*(f"{bound / 1000:g}" for bound in BOUNDS_MS), "+Inf")


def exposition(metrics: EngineMetrics, *, openmetrics: bool = False) -> str:
    """The result of `Database.metrics()` in Prometheus' text format 0.0.4, or in that of
    OpenMetrics 1.0; docs/metrics.md lists the metrics."""
    write = openmetrics_text.generate_latest if openmetrics else generate_latest
    text: bytes = write(_EngineCollector(metrics))
    return text.decode()


@dataclass(frozen=True, slots=True)
class _EngineCollector(Collector):
    """What the library takes instead of a registry: figures that are measured already."""

    metrics: EngineMetrics

    def collect(self) -> Iterator[Metric]:
        return (_metric(family, self.metrics) for family in FAMILIES)


def _metric(family: Family, metrics: EngineMetrics) -> Metric:
    match family:
        case Numbers(name, kind, meaning, labels, points):
            of_kind = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
            numbers = of_kind(name, meaning, labels=labels)
            for label_values, value in points(metrics):
                if value is not None:
                    numbers.add_metric(label_values, value)
            return numbers
        case Histogram(name, meaning, labels, points_):
            histogram = HistogramMetricFamily(name, meaning, labels=labels)
            for label_values, durations in points_(metrics):
                histogram.add_metric(label_values, _buckets(durations), durations.total / SECOND_NS)
            return histogram
    assert_never(family)


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    """Each bound in seconds, with the number of durations up to it."""
    return list(zip(_BOUNDS, accumulate(durations.buckets), strict=True))

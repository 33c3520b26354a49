"""The latency of single records in an embedded database, from INSERT to a push query."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tests.bench.figures.catalogue import Reading
from tests.bench.figures.setting import Setting
from tests.bench.figures.usage import measured
from tests.bench.latency import latencies


def latency(setting: Setting) -> Iterator[Reading]:
    """Median and p99 in ms, and the CPU of one insert, with its share of opening the database."""
    inserts = setting.scale.inserts
    with measured() as used:
        _, seen = latencies(setting.folder / "latency.db", inserts)
    cuts = statistics.quantiles(seen, n=100, method="inclusive")
    yield Reading(
        "latency",
        f"p50 {statistics.median(seen):.1f} ms, p99 {cuts[98]:.1f} ms"
        f" ({1000 * used.cpu / inserts:.1f} ms of CPU an insert, {used})",
    )

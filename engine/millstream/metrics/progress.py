"""Formats the metrics of queries as text for DESCRIBE, SHOW and EXPLAIN."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from millstream.metrics.figures import (
    Commits,
    PartitionPosition,
    QueryMetrics,
    Restoration,
    SubTopologyMetrics,
    Traffic,
)
from millstream.runtime.durations import MS

Facts = list[tuple[str, str]]
UNKNOWN = "unknown"


def query_progress(query: QueryMetrics) -> Facts:
    """The counts, rates and positions of a query."""
    traffic = query.traffic
    facts = [
        ("Records in", _flow(traffic.records_in, traffic.in_per_second)),
        ("Records out", _flow(traffic.records_out, traffic.out_per_second)),
        ("Last records processed", time_text(query.last_run_ms)),
        ("Late rows", str(traffic.late)),
        ("Rows not used", unused_text(query)),
    ]
    if query.restoration is not None:
        facts.append(("Restoring", restoration_text(query.restoration)))
    facts += _commit_facts(query.commits)
    facts += [
        (f"Sub-topology {sub.index}", _sub_topology_text(sub)) for sub in query.sub_topologies
    ]
    if query.checkpoints:
        told = (
            f"sub-topology {each.sub_topology}, partition {each.partition}: up to"
            f" {each.position}, written {time_text(each.written_at_ms)}"
            for each in query.checkpoints
        )
        facts.append(("Checkpoints", "\n".join(told)))
    topics = sorted({each.topic for each in query.positions})
    if topics:
        offsets = (f"{topic}: {places_text(query, topic)}" for topic in topics)
        facts.append(("Offsets", "\n".join(offsets)))
    return facts


def read_facts(query: QueryMetrics, topic: str) -> Facts:
    """The records that a query has read from a topic: those of each sub-topology that reads it. If
    that one reads other topics too, the text names them."""
    facts = []
    for sub in query.sub_topologies:
        if topic in sub.inputs:
            flow = _flow(sub.traffic.records_in, sub.traffic.in_per_second)
            others = [name for name in sub.inputs if name != topic]
            together = f", together with {', '.join(others)}" if others else ""
            facts.append((f"Records read by {query.query_id}", flow + together))
    return facts


def written_fact(query: QueryMetrics, topic: str) -> tuple[str, str]:
    """The records that a query has written to its sink."""
    into = [sub.traffic for sub in query.sub_topologies if topic in sub.outputs]
    flow = _flow(
        sum(traffic.records_out for traffic in into),
        sum(traffic.out_per_second for traffic in into),
    )
    last = "" if query.last_run_ms is None else f", last {time_text(query.last_run_ms)}"
    return f"Records written by {query.query_id}", flow + last


def group_text(query: QueryMetrics, starts: Sequence[int], topic: str) -> str:
    """The consumer group of a query on a topic, as a table with one line for each partition."""
    positions = _positions(query, topic)
    lines = [["Partition", "Start", "End", "Offset", "Lag"]]
    for each in positions:
        start = starts[each.partition] if each.partition < len(starts) else UNKNOWN
        end = UNKNOWN if each.lag is None else each.position + each.lag
        cells = (each.partition, start, end, each.position, _lag(each.lag))
        lines.append([str(cell) for cell in cells])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = (
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join((f"Max lag {_greatest(positions)}", *table))


def places_text(query: QueryMetrics, topic: str) -> str:
    """The positions and lags of a query in the partitions of a topic, and the maximum lag."""
    positions = _positions(query, topic)
    listed = (f"{each.partition} at {each.position} (lag {_lag(each.lag)})" for each in positions)
    return f"{', '.join(listed)}; max lag {_greatest(positions)}"


def unused_text(query: QueryMetrics) -> str:
    """The number of rows in the processing log, including late ones, and their kinds."""
    kinds = ", ".join(f"{kind} {count}" for kind, count in query.problems.items())
    return f"{sum(query.problems.values())}" + (f" ({kinds})" if kinds else "")


def restoration_text(restoration: Restoration) -> str:
    """The progress of a replay and its remaining time."""
    eta = restoration.eta_seconds
    to_go = UNKNOWN if eta is None else str(timedelta(seconds=round(eta)))
    return (
        f"{restoration.left} of {restoration.total} changelog records left "
        f"({restoration.share:.0%} done), {restoration.per_second:.1f}/s, "
        f"time to go {to_go}"
    )


def time_text(ms: int | None) -> str:
    """A time as ISO 8601 in UTC."""
    if ms is None:
        return "never"
    try:
        time = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError):
        # Times of records may be beyond the years that have a name here.
        return f"{ms} ms"
    return time.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _commit_facts(commits: Commits) -> Facts:
    took = commits.took
    facts = [("Commits", str(commits.count))]
    if took.count:
        durations = {
            "last": took.last,
            "median": took.quantile(0.5),
            "p99": took.quantile(0.99),
            "longest": took.longest,
        }
        text = ", ".join(f"{name} {value / MS:.1f} ms" for name, value in durations.items())
        facts.append(("Commits took", text))
    facts += [
        ("Last commit waited for", f"{commits.wait_ms} ms"),
        ("Longest wait for a commit", f"{commits.wait_max_ms} ms"),
    ]
    if commits.reopened:
        facts.append(("Opened again", f"{commits.reopened} times, from what was committed"))
    return facts


def _sub_topology_text(sub: SubTopologyMetrics) -> str:
    parts = [f"{sub.tasks} tasks", *_traffic(sub.traffic), f"lag {_lag(sub.lag)}"]
    if sub.state_rows:
        parts.append(f"about {sum(sub.state_rows.values())} rows of state")
    if sub.stream_time_ms is not None:
        parts.append(f"stream time {time_text(sub.stream_time_ms)}")
    if sub.to_restore:
        parts.append(f"{sub.to_restore} to restore")
    return ", ".join(parts)


def _traffic(traffic: Traffic) -> list[str]:
    return [
        f"{traffic.records_in} records in",
        f"{traffic.records_out} out",
        f"{traffic.late} late",
        f"{traffic.problems} with problems",
        f"{traffic.changes} changes of state",
    ]


def _flow(count: int, per_second: float) -> str:
    return f"{count} ({per_second:.1f}/s)"


def _positions(query: QueryMetrics, topic: str) -> list[PartitionPosition]:
    return [each for each in query.positions if each.topic == topic]


def _greatest(positions: Sequence[PartitionPosition]) -> str:
    lags = [each.lag for each in positions]
    known = [lag for lag in lags if lag is not None]
    return UNKNOWN if len(known) < len(lags) else str(max(known, default=0))


def _lag(lag: int | None) -> str:
    return UNKNOWN if lag is None else str(lag)

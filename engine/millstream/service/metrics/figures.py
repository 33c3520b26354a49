"""The figures of an engine, as `Database.metrics()` gives them: plain data, taken at one time.

Counters begin at zero when the database is opened or the query made; rates are means over the
last half minute; times are in seconds unless a name ends in `_ms`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from millstream.runtime.durations import MS, Durations

PERSISTENT, PUSH = "PERSISTENT", "PUSH"
TABLE = pa.schema(
    [
        ("query", pa.string()),
        ("type", pa.string()),
        ("state", pa.string()),
        ("error", pa.string()),
        ("sub_topology", pa.int32()),
        ("inputs", pa.list_(pa.string())),
        ("outputs", pa.list_(pa.string())),
        ("tasks", pa.int32()),
        ("records_in", pa.int64()),
        ("records_out", pa.int64()),
        ("in_per_second", pa.float64()),
        ("out_per_second", pa.float64()),
        ("changes", pa.int64()),
        ("late", pa.int64()),
        ("problems", pa.int64()),
        ("lag", pa.int64()),
        ("to_restore", pa.int64()),
        ("runs", pa.int64()),
        ("commits", pa.int64()),
        ("reopened", pa.int64()),
        ("commit_last_ms", pa.float64()),
        ("commit_median_ms", pa.float64()),
        ("commit_p99_ms", pa.float64()),
        ("commit_wait_ms", pa.int64()),
        ("commit_wait_max_ms", pa.int64()),
    ]
)
TRAFFIC = (
    "records_in",
    "records_out",
    "in_per_second",
    "out_per_second",
    "changes",
    "late",
    "problems",
)
"""The columns that are fields of `Traffic`."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Records that went through a query or a sub-topology."""

    records_in: int = 0
    records_out: int = 0
    in_per_second: float = 0.0
    out_per_second: float = 0.0
    changes: int = 0
    """Records appended to changelogs."""
    late: int = 0
    """Rows dropped because their window had closed."""
    problems: int = 0
    """Rows with any other entry in the processing log."""


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """How far a query is in one partition that it reads. `lag`: records not yet processed, None
    while the log does not tell its end."""

    topic: str
    partition: int
    position: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class Restoration:
    """A replay of changelogs that is going on, in records. `eta_seconds`: when it is done if it
    goes on like this; None while nothing has come yet."""

    left: int
    total: int
    per_second: float
    eta_seconds: float | None

    @property
    def share(self) -> float:
        """How much of it is done, from 0 to 1."""
        return 1 - self.left / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class Commits:
    """The commits of a query. `took`: how long they themselves took, in nanoseconds; `wait_ms`:
    how long the oldest work of the last one had waited for it, and the longest such wait."""

    count: int = 0
    took: Durations = field(default_factory=Durations)
    wait_ms: int = 0
    wait_max_ms: int = 0
    reopened: int = 0
    """How often all that was in memory was thrown away, and opened again from what was
    committed."""


@dataclass(frozen=True, slots=True)
class SubTopologyMetrics:
    """One sub-topology. `lag` is None where it is not known of every partition."""

    index: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tasks: int
    traffic: Traffic
    lag: int | None
    to_restore: int


@dataclass(frozen=True, slots=True)
class QueryMetrics:
    """One query. `lag` adds up its partitions and is None where it is not known of each."""

    query_id: str
    type: str
    """PERSISTENT or PUSH."""
    state: str
    error: str = ""
    traffic: Traffic = Traffic()
    lag: int | None = None
    places: tuple[PartitionPlace, ...] = ()
    restoration: Restoration | None = None
    restored: int = 0
    """Changelog records replayed."""
    commits: Commits = Commits()
    runs: int = 0
    last_run_ms: int | None = None
    """When it last processed records: ms since the epoch."""
    problems: Mapping[str, int] = field(default_factory=dict)
    """Rows in the processing log by kind, late ones included."""
    sub_topologies: tuple[SubTopologyMetrics, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessMetrics:
    """The process the engine runs in. `memory_bytes` is its resident memory, None where the
    system does not tell; `files` are the sizes of the log and the state, where they are files."""

    uptime_seconds: float
    cpu_seconds: float
    memory_bytes: int | None
    threads: int
    files: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BackfillMetrics:
    """How far a stage of the job is that computes the past of a new query: `done` of `total`
    records, or of Spark's tasks. `sink`: the stream or table that is made."""

    sink: str
    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """Everything. `running`: whether the engine's threads are alive; `states`: how many queries
    are in each state; `backfills`: those whose jobs run at this moment."""

    running: bool
    queries: tuple[QueryMetrics, ...]
    states: Mapping[str, int]
    process: ProcessMetrics
    backfills: tuple[BackfillMetrics, ...] = ()

    def query(self, query_id: str) -> QueryMetrics:
        """One query; KeyError when it is not there."""
        for query in self.queries:
            if query.query_id == query_id:
                return query
        raise KeyError(query_id)

    def arrow(self) -> pa.Table:
        """The same as a table: one row for each query and sub-topology (`TABLE` lists the
        columns). All of the commits, `runs` and `reopened` are the whole query's."""
        rows = [row for query in self.queries for row in _rows(query)]
        return pa.Table.from_pylist(rows, schema=TABLE)


def _rows(query: QueryMetrics) -> Iterator[dict[str, Any]]:
    whole = {
        "query": query.query_id,
        "type": query.type,
        "state": query.state,
        "error": query.error or None,
    }
    if not query.sub_topologies:
        yield whole
    commits = query.commits
    for sub in query.sub_topologies:
        yield {
            **whole,
            "sub_topology": sub.index,
            "inputs": sub.inputs,
            "outputs": sub.outputs,
            "tasks": sub.tasks,
            **{name: getattr(sub.traffic, name) for name in TRAFFIC},
            "lag": sub.lag,
            "to_restore": sub.to_restore,
            "runs": query.runs,
            "commits": commits.count,
            "reopened": commits.reopened,
            "commit_last_ms": commits.took.last / MS,
            "commit_median_ms": commits.took.quantile(0.5) / MS,
            "commit_p99_ms": commits.took.quantile(0.99) / MS,
            "commit_wait_ms": commits.wait_ms,
            "commit_wait_max_ms": commits.wait_max_ms,
        }

"""The metrics of an engine at one time, as `Database.metrics()` returns them: plain data.

Counters start at zero when the database is opened or the query is created. Rates are means over
the last half minute. Times are in seconds unless a name ends in `_ms`.
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
        ("stream_time_ms", pa.int64()),
        ("state_rows", pa.int64()),
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
    """Records that a query or a sub-topology has processed."""

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
class PartitionPosition:
    """The position of a query in one partition that it reads. `lag`: records not yet processed;
    None while the end of the log is unknown."""

    topic: str
    partition: int
    position: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class Restoration:
    """A running replay of changelogs, in records. `eta_seconds`: the time left at the current
    speed; None while nothing has been replayed."""

    left: int
    total: int
    per_second: float
    eta_seconds: float | None

    @property
    def share(self) -> float:
        """The fraction that is done, from 0 to 1."""
        return 1 - self.left / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class Commits:
    """The commits of a query. `took`: their durations in nanoseconds. `wait_ms`: how long the
    oldest work of the last commit waited for it; `wait_max_ms`: the longest such wait."""

    count: int = 0
    took: Durations = field(default_factory=Durations)
    wait_ms: int = 0
    wait_max_ms: int = 0
    reopened: int = 0
    """How often the query was reopened from its last commit, discarding everything in memory."""


@dataclass(frozen=True, slots=True)
class SubTopologyMetrics:
    """One sub-topology. `lag` is None if it is unknown for a partition."""

    index: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tasks: int
    traffic: Traffic
    lag: int | None
    to_restore: int
    stream_time_ms: int | None = None
    """The greatest event time processed since the query was opened; None before any record."""
    state_rows: Mapping[str, int] = field(default_factory=dict)
    """About how many rows each of its state tables has."""


@dataclass(frozen=True, slots=True)
class TaskCheckpoint:
    """The newest checkpoint of a task that this process has written: up to which position of its
    changelog, and when."""

    sub_topology: int
    partition: int
    position: int
    written_at_ms: int


@dataclass(frozen=True, slots=True)
class QueryMetrics:
    """One query. `lag` is the sum over its partitions, or None if it is unknown for one."""

    query_id: str
    type: str
    """PERSISTENT or PUSH."""
    state: str
    error: str = ""
    traffic: Traffic = Traffic()
    lag: int | None = None
    positions: tuple[PartitionPosition, ...] = ()
    restoration: Restoration | None = None
    restored: int = 0
    """Changelog records replayed."""
    checkpoints: tuple[TaskCheckpoint, ...] = ()
    commits: Commits = Commits()
    runs: int = 0
    last_run_ms: int | None = None
    """When it last processed records, in ms since the epoch."""
    problems: Mapping[str, int] = field(default_factory=dict)
    """Rows in the processing log by kind, late ones included."""
    sub_topologies: tuple[SubTopologyMetrics, ...] = ()
    called_seconds: float = 0.0
    """How long its processors ran, and other steps of it that are in Python."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """What its processors have counted, by the names that they gave."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Other figures of its processors, those of all tasks together."""
    long_step: str = ""
    """If a step has been running for more than 10 seconds: for how long, and in which Python
    function."""


@dataclass(frozen=True, slots=True)
class ProcessMetrics:
    """The process that the engine runs in. `memory_bytes`: its resident memory, None if the system
    does not report it. `files`: the sizes of the log and the state, if they are files."""

    uptime_seconds: float
    cpu_seconds: float
    memory_bytes: int | None
    threads: int
    files: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class InstanceMetrics:
    """What the queries of an instance share. `waiting`: the queries that wait for a thread now.
    `rounds`: how often queries were committed together, and how long that took in nanoseconds;
    `round_commits`: the commits of queries in these rounds; `largest_round`: the most in one. On
    Kafka queries commit one by one, so there are no rounds. `decoded`: records decoded where
    several queries read the same ones; `reused`: records that a query did not decode, because
    another one had; `decoded_bytes`: the size of what is kept for that."""

    waiting: int = 0
    rounds: Durations = field(default_factory=Durations)
    round_commits: int = 0
    largest_round: int = 0
    decoded: int = 0
    reused: int = 0
    decoded_bytes: int = 0
    checkpoints_written: int = 0
    """The tasks whose state was written to the place of checkpoints."""
    checkpoints_loaded: int = 0
    checkpoints_failed: int = 0


@dataclass(frozen=True, slots=True)
class BackfillMetrics:
    """The progress of one stage of a back-fill job: `done` of `total` records, or of Spark's tasks.
    `sink`: the stream or table that the job computes."""

    sink: str
    stage: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """All metrics of an engine. `running`: whether its threads are alive. `states`: the number of
    queries in each state. `backfills`: the stages of the running back-fill jobs."""

    running: bool
    queries: tuple[QueryMetrics, ...]
    states: Mapping[str, int]
    process: ProcessMetrics
    backfills: tuple[BackfillMetrics, ...] = ()
    instance: InstanceMetrics = InstanceMetrics()

    def query(self, query_id: str) -> QueryMetrics:
        """One query; raises KeyError if it does not exist."""
        for query in self.queries:
            if query.query_id == query_id:
                return query
        raise KeyError(query_id)

    def arrow(self) -> pa.Table:
        """The metrics as a table with one row for each query and sub-topology (`TABLE` lists the
        columns). The figures of commits, `runs` and `reopened` are those of the whole query."""
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
            "stream_time_ms": sub.stream_time_ms,
            "state_rows": sum(sub.state_rows.values()),
            "runs": query.runs,
            "commits": commits.count,
            "reopened": commits.reopened,
            "commit_last_ms": commits.took.last / MS,
            "commit_median_ms": commits.took.quantile(0.5) / MS,
            "commit_p99_ms": commits.took.quantile(0.99) / MS,
            "commit_wait_ms": commits.wait_ms,
            "commit_wait_max_ms": commits.wait_max_ms,
        }

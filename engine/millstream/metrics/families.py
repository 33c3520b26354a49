"""The metrics that are exposed to Prometheus, each with its type, its meaning and its values.

Names and units follow the conventions of Prometheus: seconds and bytes, `_total` for counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from millstream.metrics.family import (
    Family,
    Histogram,
    LabelValues,
    Number,
    Numbers,
    Point,
    of_backfill,
    of_engine,
    of_query,
    of_sub_topology,
)
from millstream.metrics.figures import EngineMetrics, QueryMetrics
from millstream.runtime.durations import Durations


def _query_counts(metrics: EngineMetrics) -> Iterator[Point]:
    return (((state,), count) for state, count in metrics.states.items())


def _states(metrics: EngineMetrics) -> Iterator[Point]:
    for query in metrics.queries:
        for state in metrics.states:
            yield (query.query_id, query.type, state), int(query.state == state)


def _problems(metrics: EngineMetrics) -> Iterator[Point]:
    for query in metrics.queries:
        for kind, count in query.problems.items():
            yield (query.query_id, kind), count


def _of_processors(field: str) -> Callable[[EngineMetrics], Iterator[Point]]:
    def points(metrics: EngineMetrics) -> Iterator[Point]:
        for query in metrics.queries:
            for name, number in getattr(query, field).items():
                yield (query.query_id, name), number

    return points


def _of_partition(field: str) -> Callable[[EngineMetrics], Iterator[Point]]:
    def points(metrics: EngineMetrics) -> Iterator[Point]:
        for query in metrics.queries:
            for each in query.positions:
                labels = (query.query_id, each.topic, str(each.partition))
                yield labels, getattr(each, field)

    return points


def _state_rows(metrics: EngineMetrics) -> Iterator[Point]:
    for query in metrics.queries:
        for sub in query.sub_topologies:
            for table, rows in sub.state_rows.items():
                yield (query.query_id, str(sub.index), table), rows


def _checkpoint_times(metrics: EngineMetrics) -> Iterator[Point]:
    for query in metrics.queries:
        for each in query.checkpoints:
            labels = (query.query_id, str(each.sub_topology), str(each.partition))
            yield labels, each.written_at_ms / 1000


def _commit_times(metrics: EngineMetrics) -> Iterator[tuple[LabelValues, Durations]]:
    return (((query.query_id,), query.commits.took) for query in metrics.queries)


def _files(metrics: EngineMetrics) -> Iterator[Point]:
    return (((name,), size) for name, size in metrics.process.files.items())


def _restoring(field: str) -> Callable[[QueryMetrics], Number | None]:
    return lambda query: getattr(query.restoration, field) if query.restoration else None


ENGINE: tuple[Family, ...] = (
    of_engine("up", "gauge", "1 while the engine runs.", lambda m: m.running),
    of_engine(
        "uptime_seconds",
        "gauge",
        "Time since the database was opened.",
        lambda m: m.process.uptime_seconds,
    ),
    Numbers("millstream_queries", "gauge", "Queries in each state.", ("state",), _query_counts),
    of_engine(
        "process_cpu_seconds_total",
        "counter",
        "CPU time of the whole process.",
        lambda m: m.process.cpu_seconds,
    ),
    of_engine(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory of the whole process; absent if the system does not report it.",
        lambda m: m.process.memory_bytes,
    ),
    of_engine(
        "process_threads",
        "gauge",
        "Threads of the process; on Linux, including those of libraries.",
        lambda m: m.process.threads,
    ),
    Numbers(
        "millstream_file_bytes",
        "gauge",
        "Size of the log and of the state on disk, each including its `.wal`.",
        ("file",),
        _files,
    ),
    of_engine(
        "waiting_queries",
        "gauge",
        "Queries with work that wait for a processing thread.",
        lambda m: m.instance.waiting,
    ),
    Histogram(
        "millstream_commit_round_duration_seconds",
        "Duration of the rounds in which queries over a file commit together.",
        (),
        lambda m: [((), m.instance.rounds)],
    ),
    of_engine(
        "commit_round_commits_total",
        "counter",
        "Commits of queries in these rounds.",
        lambda m: m.instance.round_commits,
    ),
    of_engine(
        "commit_round_largest",
        "gauge",
        "The most queries in one round.",
        lambda m: m.instance.largest_round,
    ),
    of_engine(
        "shared_records_decoded_total",
        "counter",
        "Records decoded where several queries read the same ones.",
        lambda m: m.instance.decoded,
    ),
    of_engine(
        "shared_records_reused_total",
        "counter",
        "Records that a query did not decode, because another one had.",
        lambda m: m.instance.reused,
    ),
    of_engine(
        "shared_decoded_bytes",
        "gauge",
        "Decoded records that are kept for queries that have yet to read them.",
        lambda m: m.instance.decoded_bytes,
    ),
    of_engine(
        "checkpoints_written_total",
        "counter",
        "Tasks whose state was written to the place of checkpoints.",
        lambda m: m.instance.checkpoints_written,
    ),
    of_engine(
        "checkpoints_loaded_total",
        "counter",
        "Tasks whose state was loaded from a checkpoint.",
        lambda m: m.instance.checkpoints_loaded,
    ),
    of_engine(
        "checkpoints_failed_total",
        "counter",
        "Attempts to write or load a checkpoint that failed; the changelog has all of it.",
        lambda m: m.instance.checkpoints_failed,
    ),
)
QUERY: tuple[Family, ...] = (
    Numbers(
        "millstream_query_state",
        "gauge",
        "1 for the state a query is in, 0 for the others.",
        ("query", "type", "state"),
        _states,
    ),
    of_query(
        "records_in_total",
        "counter",
        "Records read, including those from the query's repartition topics.",
        lambda q: q.traffic.records_in,
    ),
    of_query(
        "records_out_total",
        "counter",
        "Records written, including those to the query's repartition topics.",
        lambda q: q.traffic.records_out,
    ),
    of_query(
        "records_in_per_second",
        "gauge",
        "Records read per second, over the last half minute.",
        lambda q: q.traffic.in_per_second,
    ),
    of_query(
        "records_out_per_second",
        "gauge",
        "Records written per second, over the last half minute.",
        lambda q: q.traffic.out_per_second,
    ),
    of_query(
        "late_rows_total",
        "counter",
        "Rows dropped because their window had closed.",
        lambda q: q.traffic.late,
    ),
    Numbers(
        "millstream_query_problems_total",
        "counter",
        "Rows in the processing log by kind, including late ones: dropped, or NULL where an "
        "expression failed.",
        ("query", "kind"),
        _problems,
    ),
    of_query("runs_total", "counter", "Batches processed.", lambda q: q.runs),
    of_query(
        "called_seconds_total",
        "counter",
        "Time in processors, and in other steps that are in Python.",
        lambda q: q.called_seconds,
    ),
    Numbers(
        "millstream_processor_count_total",
        "counter",
        "What processors have counted: context.metrics.add(name).",
        ("query", "name"),
        _of_processors("counts"),
    ),
    Numbers(
        "millstream_processor_value",
        "gauge",
        "Other figures of processors: context.metrics.set(name, value).",
        ("query", "name"),
        _of_processors("values"),
    ),
    of_query(
        "last_run_timestamp_seconds",
        "gauge",
        "When records were last processed; absent before the first.",
        lambda q: None if q.last_run_ms is None else q.last_run_ms / 1000,
    ),
    of_query(
        "lag_records",
        "gauge",
        "Records not yet processed; absent while the end of a partition is unknown.",
        lambda q: q.lag,
    ),
    Numbers(
        "millstream_query_partition_lag_records",
        "gauge",
        "Records of one partition not yet processed; absent while its end is unknown.",
        ("query", "topic", "partition"),
        _of_partition("lag"),
    ),
    Numbers(
        "millstream_query_partition_offset",
        "gauge",
        "The offset up to which a partition is processed.",
        ("query", "topic", "partition"),
        _of_partition("position"),
    ),
    of_query("commits_total", "counter", "Commits that succeeded.", lambda q: q.commits.count),
    Histogram(
        "millstream_query_commit_duration_seconds",
        "Duration of the commits, from flushing the outputs to committing the state.",
        ("query",),
        _commit_times,
    ),
    of_query(
        "commit_wait_seconds",
        "gauge",
        "How long the oldest work of the last commit waited for it.",
        lambda q: q.commits.wait_ms / 1000,
    ),
    of_query(
        "commit_wait_max_seconds",
        "gauge",
        "The longest such wait.",
        lambda q: q.commits.wait_max_ms / 1000,
    ),
    of_query(
        "reopened_total",
        "counter",
        "How often the query was reopened from its last commit, discarding everything in memory.",
        lambda q: q.commits.reopened,
    ),
)
BACKFILL: tuple[Family, ...] = (
    of_backfill(
        "done",
        "Records read or, on Spark, tasks completed by a back-fill job; absent after its end.",
        lambda stage: stage.done,
    ),
    of_backfill("size", "Records or tasks of the stage in total.", lambda stage: stage.total),
)
RESTORATION: tuple[Family, ...] = (
    of_query(
        "restored_records_total", "counter", "Changelog records replayed.", lambda q: q.restored
    ),
    of_query(
        "restore_left_records",
        "gauge",
        "Changelog records left to replay; absent without a restoration.",
        _restoring("left"),
    ),
    of_query(
        "restore_total_records",
        "gauge",
        "Changelog records of the current restoration; absent without one.",
        _restoring("total"),
    ),
    of_query(
        "restore_records_per_second",
        "gauge",
        "Speed of the restoration over the last half minute; absent without one.",
        _restoring("per_second"),
    ),
    of_query(
        "restore_eta_seconds",
        "gauge",
        "Estimated time until the end of the restoration; absent while it is unknown.",
        _restoring("eta_seconds"),
    ),
)
SUB_TOPOLOGY: tuple[Family, ...] = (
    Numbers(
        "millstream_checkpoint_written_time_seconds",
        "gauge",
        "When this process has written the newest checkpoint of a task, since the epoch.",
        ("query", "sub_topology", "partition"),
        _checkpoint_times,
    ),
    of_sub_topology("tasks", "gauge", "Open tasks.", lambda s: s.tasks),
    of_sub_topology("records_in_total", "counter", "Records read.", lambda s: s.traffic.records_in),
    of_sub_topology(
        "records_out_total", "counter", "Records written.", lambda s: s.traffic.records_out
    ),
    of_sub_topology(
        "changes_total",
        "counter",
        "Records appended to the changelog.",
        lambda s: s.traffic.changes,
    ),
    of_sub_topology(
        "late_rows_total",
        "counter",
        "Rows dropped because their window had closed.",
        lambda s: s.traffic.late,
    ),
    of_sub_topology(
        "problems_total",
        "counter",
        "Rows with any other entry in the processing log.",
        lambda s: s.traffic.problems,
    ),
    of_sub_topology(
        "stream_time_seconds",
        "gauge",
        "Greatest event time processed since the query was opened, since the epoch; absent before"
        " the first record.",
        lambda s: None if s.stream_time_ms is None else s.stream_time_ms / 1000,
    ),
    Numbers(
        "millstream_state_rows",
        "gauge",
        "Rows of a state table, about: deleted ones count until the next checkpoint.",
        ("query", "sub_topology", "table"),
        _state_rows,
    ),
    of_sub_topology(
        "lag_records",
        "gauge",
        "Records not yet processed; absent while the end of a partition is unknown.",
        lambda s: s.lag,
    ),
    of_sub_topology(
        "restore_left_records",
        "gauge",
        "Changelog records left to replay.",
        lambda s: s.to_restore,
    ),
)
SECTIONS = {
    "The engine and its process": ENGINE,
    "Each query": QUERY,
    "Each query's restoration of state": RESTORATION,
    "Each sub-topology of a query": SUB_TOPOLOGY,
    "Each stage of a back-fill": BACKFILL,
}
FAMILIES: tuple[Family, ...] = tuple(family for part in SECTIONS.values() for family in part)

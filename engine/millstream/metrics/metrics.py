"""The metrics of an engine, collected from its queries, its sampler and its processing log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import reduce

from millstream.historical.historical import Historical
from millstream.metrics.figures import (
    PERSISTENT,
    PUSH,
    BackfillMetrics,
    Commits,
    EngineMetrics,
    InstanceMetrics,
    PartitionPosition,
    QueryMetrics,
    SubTopologyMetrics,
    TaskCheckpoint,
    Traffic,
)
from millstream.metrics.process import process_metrics
from millstream.metrics.sampling import SECOND_NS, WHOLE, Sampler, Samples, rates, restoration
from millstream.model.event_time import NEVER
from millstream.push.push_queries import PushQueries
from millstream.queries.processing_log import ProcessingLog
from millstream.queries.registry import QueryRegistry
from millstream.queries.statuses import activity, statuses, statuses_at
from millstream.runtime.calls import NO_CALLS, Calls
from millstream.runtime.spec import QueryState, QueryStatus, SubTopologyStatus

StateRows = Mapping[tuple[str, int], Mapping[str, int]]
"""The rows of state tables by query and sub-topology, then by table."""
_NO_ROWS: StateRows = {}


class Metrics:
    """Collects the metrics of an engine.

    `ticks`: a monotonic clock in ns. `files`: the paths of the log and the state, if they are
    files.
    """

    def __init__(
        self,
        historical: Historical,
        push_queries: PushQueries,
        processing_log: ProcessingLog,
        ticks: Callable[[], int],
    ) -> None:
        self.files: Mapping[str, str] = {}
        self.sampler = Sampler(
            lambda query_ids: statuses_at(historical.registry, {}, query_ids),
            ticks,
            lambda: activity(historical.registry),
        )
        self._historical = historical
        self._push_queries = push_queries
        self._processing_log = processing_log
        self._ticks = ticks
        self._opened_at = ticks()
        self._ended = False

    def start(self) -> None:
        """Sample the counters of the queries from now on."""
        self.sampler.start()

    def stop(self) -> None:
        """End the sampling; idempotent."""
        self._ended = True
        self.sampler.stop()

    def now(self) -> EngineMetrics:
        """See `Database.metrics`."""
        registry = self._historical.registry
        current = statuses(registry)
        samples = self.sampler.now(current)
        rows = registry.store.row_counts()
        queries = [
            query
            for status in current
            for query in self._per_client(self._query(status, samples, rows))
        ]
        queries += [
            QueryMetrics(query_id, PERSISTENT, QueryState.ERROR.value, error)
            for query_id, error in registry.failed.items()
        ]
        counted = Counter(query.state for query in queries)
        return EngineMetrics(
            running=registry.driver.failure is None and not self._ended,
            queries=tuple(queries),
            states={state.value: counted[state.value] for state in QueryState},
            process=process_metrics((self._ticks() - self._opened_at) / SECOND_NS, self.files),
            backfills=tuple(
                BackfillMetrics(watch.name, stage.name, stage.done, stage.total)
                for watch in tuple(self._historical.backfills)
                for stage in watch.stages()
            ),
            instance=_instance(registry),
        )

    def _per_client(self, query: QueryMetrics) -> list[QueryMetrics]:
        """The metrics of a running query. For a shared push query, they are repeated for each
        client."""
        shared_push = self._push_queries.running.get(query.query_id)
        if shared_push is None:
            return [query]
        return [replace(query, query_id=stream.query_id) for stream in shared_push.streams]

    def _query(self, status: QueryStatus, samples: Samples, rows: StateRows) -> QueryMetrics:
        problems = self._processing_log.counts(status.query_id)
        found = query_metrics(status, samples, problems, rows)
        registry = self._historical.registry
        return replace(
            found,
            checkpoints=_checkpoints(registry, status.query_id),
            long_step=registry.driver.long_step(status.query_id),
        )


def _instance(registry: QueryRegistry) -> InstanceMetrics:
    rounds, decoded = registry.runtime.rounds, registry.decoded
    place = registry.restoring.checkpoints if registry.restoring is not None else None
    return InstanceMetrics(
        registry.driver.waiting,
        rounds.took,
        rounds.commits,
        rounds.largest,
        decoded.decoded,
        decoded.reused,
        decoded.bytes,
        *((place.counts.written, place.counts.loaded, place.counts.failed) if place else ()),
    )


def _checkpoints(registry: QueryRegistry, query_id: str) -> tuple[TaskCheckpoint, ...]:
    if registry.restoring is None or registry.restoring.checkpoints is None:
        return ()
    written = registry.restoring.checkpoints.written(query_id)
    return tuple(
        TaskCheckpoint(*task, each.position, each.at_ms) for task, each in sorted(written.items())
    )


def query_metrics(
    status: QueryStatus,
    samples: Samples,
    problems: Mapping[str, int],
    rows: StateRows = _NO_ROWS,
) -> QueryMetrics:
    """The metrics of one running query. `problems`: the counts of its rows that had one; `rows`:
    those of all state tables."""
    counters = status.metrics
    subs = tuple(_sub_topology(status, sub, samples, rows) for sub in status.sub_topologies)
    calls = reduce(Calls.plus, (sub.metrics.calls for sub in status.sub_topologies), NO_CALLS)
    return QueryMetrics(
        query_id=status.query_id,
        type=PUSH if status.transient else PERSISTENT,
        state=status.state.value,
        error=status.error,
        traffic=_total([sub.traffic for sub in subs], rates(samples, (status.query_id, WHOLE))),
        lag=_sum([sub.lag for sub in subs]),
        positions=tuple(
            PartitionPosition(*topic_partition, position, _known(status.lag[topic_partition]))
            for topic_partition, position in sorted(status.positions.items())
        ),
        restoration=restoration(samples, status.query_id),
        restored=counters.restored,
        commits=Commits(
            counters.commits,
            counters.commit_took,
            counters.commit_wait_ms,
            counters.commit_wait_max_ms,
            counters.reopened,
        ),
        runs=counters.runs,
        last_run_ms=counters.last_run or None,
        problems=problems,
        sub_topologies=subs,
        called_seconds=calls.seconds,
        counts=calls.counts,
        values=calls.totals,
    )


def _sub_topology(
    status: QueryStatus, sub: SubTopologyStatus, samples: Samples, rows: StateRows
) -> SubTopologyMetrics:
    own = sub.metrics
    per_second = rates(samples, (status.query_id, sub.index))
    return SubTopologyMetrics(
        index=sub.index,
        inputs=sub.inputs,
        outputs=sub.outputs,
        tasks=sub.tasks,
        traffic=Traffic(
            own.records_in, own.records_out, *per_second, own.changes, own.late, own.problems
        ),
        lag=_known(sub.lag),
        to_restore=sub.to_restore,
        stream_time_ms=own.stream_time if own.stream_time > NEVER else None,
        state_rows=rows.get((status.query_id, sub.index), {}),
    )


def _total(parts: Collection[Traffic], per_second: tuple[float, float]) -> Traffic:
    """A query's traffic: the sum over its sub-topologies."""
    return Traffic(
        sum(part.records_in for part in parts),
        sum(part.records_out for part in parts),
        *per_second,
        sum(part.changes for part in parts),
        sum(part.late for part in parts),
        sum(part.problems for part in parts),
    )


def _known(lag: int) -> int | None:
    """A lag of the runtime, which uses -1 for an unknown lag."""
    return None if lag < 0 else lag


def _sum(lags: Collection[int | None]) -> int | None:
    known = [lag for lag in lags if lag is not None]
    return sum(known) if len(known) == len(lags) else None

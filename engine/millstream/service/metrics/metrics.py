"""Collects the metrics of an engine from its runtime, its sampler and its processing log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from millstream.runtime.spec import QueryState, QueryStatus, SubTopologyStatus
from millstream.service.engine import Engine
from millstream.service.metrics.figures import (
    PERSISTENT,
    PUSH,
    BackfillMetrics,
    Commits,
    EngineMetrics,
    PartitionPlace,
    QueryMetrics,
    SubTopologyMetrics,
    Traffic,
)
from millstream.service.metrics.process import process_metrics
from millstream.service.metrics.sampling import SECOND_NS, WHOLE, Samples, rates, restoration


def metrics(engine: Engine) -> EngineMetrics:
    """See `Database.metrics`."""
    statuses = engine.statuses()
    samples = engine.sampler.now(statuses)
    queries = [
        query
        for status in statuses
        for query in _per_client(_query(status, samples, engine), engine)
    ]
    queries += [
        QueryMetrics(query_id, PERSISTENT, QueryState.ERROR.value, error)
        for query_id, error in engine.registry.failed.items()
    ]
    counted = Counter(query.state for query in queries)
    return EngineMetrics(
        running=engine.driver.failure is None and not engine.closed,
        queries=tuple(queries),
        states={state.value: counted[state.value] for state in QueryState},
        process=process_metrics((engine.ticks() - engine.opened_at) / SECOND_NS, engine.files),
        backfills=tuple(
            BackfillMetrics(watch.name, stage.name, stage.done, stage.total)
            for watch in tuple(engine.history.backfills)
            for stage in watch.stages()
        ),
    )


def _per_client(query: QueryMetrics, engine: Engine) -> list[QueryMetrics]:
    """The metrics of a running query. For a shared push query, they are repeated for each
    client."""
    shared_push = engine.push_queries.get(query.query_id)
    if shared_push is None:
        return [query]
    return [replace(query, query_id=stream.query_id) for stream in shared_push.streams]


def _query(status: QueryStatus, samples: Samples, engine: Engine) -> QueryMetrics:
    counters = status.metrics
    subs = tuple(_sub_topology(status, stage, samples) for stage in status.stages)
    return QueryMetrics(
        query_id=status.query_id,
        type=PUSH if status.transient else PERSISTENT,
        state=status.state.value,
        error=status.error,
        traffic=_total([sub.traffic for sub in subs], rates(samples, (status.query_id, WHOLE))),
        lag=_sum([sub.lag for sub in subs]),
        places=tuple(
            PartitionPlace(*topic_partition, position, _known(status.lag[topic_partition]))
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
        problems=engine.processing_log.counts(status.query_id),
        sub_topologies=subs,
    )


def _sub_topology(
    status: QueryStatus, stage: SubTopologyStatus, samples: Samples
) -> SubTopologyMetrics:
    own = stage.metrics
    per_second = rates(samples, (status.query_id, stage.index))
    return SubTopologyMetrics(
        index=stage.index,
        inputs=stage.inputs,
        outputs=stage.outputs,
        tasks=stage.tasks,
        traffic=Traffic(
            own.records_in, own.records_out, *per_second, own.changes, own.late, own.problems
        ),
        lag=_known(stage.lag),
        to_restore=stage.to_restore,
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

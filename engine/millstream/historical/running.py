"""Runs a bounded query in this process or on Spark, and returns its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from millstream.historical.historical import Historical
from millstream.historical.planning import BoundedQuery
from millstream.history.reading import FromLog, Source
from millstream.history.session import available
from millstream.history.splits import Run, Split, widths_of
from millstream.history.task import Produced
from millstream.history.watch import Watch, Watched
from millstream.history.within import Within
from millstream.log.log import Appended, TopicPartition
from millstream.model.problem import Problem
from millstream.model.schema import SourceKind
from millstream.queries.registry import QueryRegistry
from millstream.queries.starting import caching, fatal_problems, takes_by_arrival
from millstream.query.session import Session
from millstream.topology.topology import Topology

BACKEND = "millstream.history.backend"
SPARK_BYTES = "millstream.history.spark.bytes"
_FEW = 100
READ = "read"
"""The name of the only progress stage of a run in this process."""


def rows_of(
    query: BoundedQuery,
    historical: Historical,
    session: Session,
    watch: Watch,
    *,
    lazily: bool = False,
) -> Iterator[pa.Table]:
    """The rows of a run, as they are computed. Rows that cannot be processed go to the processing
    log. `lazily`: the caller may stop before the end."""
    query_id = query.run.topology.query_id
    if on_spark(query, historical, session):
        produced = historical.on_spark.produced(
            query.run,
            query.timed,
            historical.registry.log,
            historical.registry.functions,
            watch,
            lazily=lazily,
        )
        return _rows(produced, query_id, historical)
    watch.show(READ, 0, query.run.records)
    source: Source = Within(Watched(FromLog(historical.registry.log), watch, READ), query.timed)
    return _rows(historical.run_here(query.run, source), query_id, historical)


def run_of(
    registry: QueryRegistry,
    topology: Topology,
    splits: Mapping[TopicPartition, Split],
    properties: Mapping[str, str],
) -> Run:
    """A run of a persistent query, whose tasks also produce their changelog records. A sink that
    does not exist yet has one partition."""
    cached = topology.subtopologies[-1].root.kind is SourceKind.TABLE and caching(properties)
    widths = widths_of(topology, registry.log)
    return Run(
        topology,
        splits,
        widths,
        cached,
        fatal_problems(properties),
        by_arrival=takes_by_arrival(registry.log, topology, properties),
        changes=True,
        memory_limit=registry.settings.history_memory_limit,
        schemas=registry.schemas,
    )


def on_spark(query: BoundedQuery, historical: Historical, session: Session) -> bool:
    """Whether a run uses Spark: by the session's setting, or, with `auto`, if its input is large
    and Spark is available."""
    backend = session.property(BACKEND)
    if backend != "auto":
        return backend == "spark"
    return _bytes(query, historical) >= int(session.property(SPARK_BYTES)) and available()


def _bytes(query: BoundedQuery, historical: Historical) -> int:
    """The approximate size of the input, estimated from the first records of each topic."""
    total, sizes = 0, dict[str, float]()
    for split in query.run.splits.values():
        if split.topic not in sizes and split.end > split.start:
            few = historical.registry.log.read(split.topic, split.partition, split.start, _FEW)
            sizes[split.topic] = few.batch.nbytes / max(few.count, 1)
        total += int(sizes.get(split.topic, 0) * (split.end - split.start))
    return total


def _rows(
    produced: Iterator[Produced], query_id: str, historical: Historical
) -> Iterator[pa.Table]:
    for item in produced:
        if isinstance(item, Appended):
            yield item.batch
        elif isinstance(item, Problem):
            historical.registry.report(query_id, (item,))

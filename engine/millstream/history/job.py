"""Runs a bounded run as a Spark job.

Spark plans tasks, moves cells, sorts, spills and retries; our code runs in the tasks, in Spark's
Python workers. A repartition topic is a `repartitionById` by the number of the receiving task,
followed by `sortWithinPartitions` into the order that the task needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as f

from millstream.functions.function import Catalogue
from millstream.history.failures import translated
from millstream.history.progress import new_group
from millstream.history.reading import Source
from millstream.history.splits import Run
from millstream.history.stage import stages
from millstream.history.task import Produced
from millstream.history.worker import IN_ORDER, START, Work, own_functions, produced
from millstream.model.event_time import NEVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "topic string, partition int, moment bigint, sender int, number bigint, count bigint, "
    "content binary"
)
PART_BYTES = 64 << 20
"""The number of results, as packed cells, that are fetched ahead at once."""
_START_COLUMNS = (
    f"'{START}' AS topic",
    "CAST(id AS int) AS partition",
    f"{NEVER}L AS moment",
    "-1 AS sender",
    "-1L AS number",
    "0L AS count",
    "CAST(NULL AS binary) AS content",
)
ORDER = ("sender", "number")
"""The columns that order the last stage's rows, task by task."""


def run_on_spark(
    run: Run,
    source: Source,
    functions: Catalogue,
    spark: SparkSession,
    *,
    group: str | None = None,
    lazily: bool = False,
) -> Iterator[Produced]:
    """The rows for the sink or the client, partition by partition.

    `group`: the job group, for cancelling (`SparkContext.cancelJobGroup`) and watching the job.
    `lazily`: tasks of the last stage run when their rows are requested, few at a time; otherwise
    all at once, with their rows buffered on disk. Closing the iterator ends the job.
    """
    name = group or new_group()
    context = spark.sparkContext
    done, kept = False, None
    try:
        context.setJobGroup(name, run.topology.query_id, interruptOnCancel=True)
        outputs = planned(run, source, functions, spark).select(
            *ORDER, "topic", "partition", "count", "content"
        )
        if not lazily:
            kept = outputs.persist(StorageLevel.DISK_ONLY)
            outputs = in_parts(kept)
        for row in outputs.toLocalIterator(prefetchPartitions=True):
            yield produced(row.topic, row.partition, row["count"], bytes(row.content))
        done = True
    except Exception as error:
        raise translated(error, run.topology.query_id) from error
    finally:
        # The JVM may have ended.
        with suppress(Exception):
            if not done:
                context.cancelJobGroup(name)
            if kept is not None:
                kept.unpersist()


def in_parts(outputs: DataFrame, size: int = PART_BYTES) -> DataFrame:
    """The same rows in the same order, in partitions of at most about `size` bytes, because the
    driver loads one at a time into its memory. Measuring the partitions computes all of them."""
    found = outputs.agg(f.sum(f.length("content"))).first()
    parts = math.ceil((found[0] if found and found[0] else 0) / size)
    if parts <= 1:
        return outputs
    return outputs.repartitionByRange(parts, *ORDER).sortWithinPartitions(*ORDER)


def planned(run: Run, source: Source, functions: Catalogue, spark: SparkSession) -> DataFrame:
    """The rows of the last stage of a run (`worker.SCHEMA`)."""
    own = own_functions(functions)
    made: dict[int, DataFrame] = {}
    senders: dict[int, list[int]] = {}
    for stage in stages(run):
        sub = stage.kind.sub
        rows = _starts(spark, sub.partitions)
        sending = senders.get(sub.index, [])
        if sending:
            for sender in sending:
                rows = rows.unionAll(made[sender])
            rows = rows.repartitionById(
                sub.partitions, f.expr(f"CAST(pmod(partition, {sub.partitions}) AS int)")
            ).sortWithinPartitions(*IN_ORDER)
        work = Work(stage, source, run.inner, own)
        made[sub.index] = rows.mapInArrow(_runner(work), COLUMNS)
        if sub.output in run.inner:
            senders.setdefault(run.reader_of(str(sub.output)), []).append(sub.index)
    return made[run.topology.subtopologies[-1].index]


def _starts(spark: SparkSession, tasks: int) -> DataFrame:
    """The first row of each task, one in each partition."""
    return spark.range(0, tasks, 1, tasks).selectExpr(*_START_COLUMNS)


def _runner(
    work: Work,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work.run(batches)

    return run

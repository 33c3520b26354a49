"""A bounded run over little input: stage by stage, each as a round of the tasks that have input.

Rows between stages return to the driver, so nothing must be planned, and tasks without input are
never started. For large input, `job` lets Spark move the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millstream.formats.ipc import pack, unpack
from millstream.functions.function import Catalogue
from millstream.history.failures import translated
from millstream.history.progress import new_group
from millstream.history.reading import Source
from millstream.history.splits import Run
from millstream.history.stage import stages
from millstream.history.task import Produced
from millstream.history.worker import IN_ORDER, SCHEMA, Work, own_functions, produced, starting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Round = Callable[[Work, Sequence[bytes]], Iterable[bytes]]
"""Runs tasks. Each is described by the rows that it gets (`worker.SCHEMA`, as an Arrow IPC batch);
returns their output as such batches."""


def run_in_rounds(run: Run, source: Source, functions: Catalogue, round_: Round) -> Iterator[Any]:
    """The rows for the sink, and the changelogs. Raises the error that stops the query."""
    own = own_functions(functions)
    waiting: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for stage in stages(run):
        sub = stage.kind.sub
        tasks = []
        for partition in range(sub.partitions):
            cells = waiting.pop((sub.index, partition), [])
            if cells or not stage.idle(partition):
                rows = sorted([starting(partition), *cells], key=itemgetter(*IN_ORDER))
                tasks.append(pack(pa.Table.from_pylist(rows, schema=SCHEMA)))
        if not tasks:
            continue
        for content in round_(Work(stage, source, run.inner, own), tasks):
            for row in unpack(content).to_pylist():
                if row["topic"] in run.inner:
                    waiting[run.reader_of(row["topic"]), row["partition"]].append(row)
                else:
                    yield produced(row["topic"], row["partition"], row["count"], row["content"])


def in_round(work: Work, tasks: Iterable[bytes]) -> Iterator[bytes]:
    """The tasks of a round, in the process that runs them."""
    for rows in tasks:
        for batch in work.run(unpack(rows).to_batches()):
            yield pack(pa.Table.from_batches([batch]))


def run_little_on_spark(
    run: Run, source: Source, functions: Catalogue, spark: SparkSession
) -> list[Produced]:
    """Run it as one Spark job for each stage."""
    context = spark.sparkContext

    def round_(work: Work, tasks: Sequence[bytes]) -> list[bytes]:
        # More Spark tasks than can run at once would only add cost.
        slices = min(len(tasks), context.defaultParallelism)
        each = context.parallelize(tasks, slices).mapPartitions(partial(in_round, work))
        return list(each.collect())

    context.setJobGroup(new_group(), run.topology.query_id, interruptOnCancel=True)
    try:
        return list(run_in_rounds(run, source, functions, round_))
    except Exception as error:
        raise translated(error, run.topology.query_id) from error

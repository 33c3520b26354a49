"""Bounded runs of engines' queries on a Spark session of the tests, many in one job.

Planning and starting a job takes longer than a small run. So the stages of all runs that may run at
the same time make one stage of Spark's, whose tasks work off those of the runs one after another;
what they do is `worker.Work`, and the cells go through Spark's exchange and sort, as in
`history.job`.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as f

from millstream.history.job import COLUMNS
from millstream.history.sealed import seal
from millstream.history.session import Spark, SparkSettings
from millstream.history.splits import Run
from millstream.history.stage import stages
from millstream.history.worker import SCHEMA, START, Work, own_functions, produced
from millstream.log.log import Appended
from millstream.model.event_time import NEVER
from millstream.service.engine import Engine
from tests.spark.java import QUICK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANY_JOBS = {**QUICK, "spark.sql.shuffle.partitions": "2"}
"""For many small jobs."""
SLOTS = 4
"""Tasks of Spark's that share those of the runs."""
ADDRESS = pa.schema([(name, pa.int32()) for name in ("run", "sub", "task")])
"""The task that a row is for: the run, its sub-topology, the partition."""
ROW = pa.schema([*ADDRESS, *SCHEMA])
Address = tuple[int, int, int]
Made = list[Appended[pa.Table]]


@dataclass(frozen=True, slots=True)
class Level:
    """The stages that run at the same time, by run and sub-topology, and where what each run moves
    goes: by run and topic, the sub-topology that reads it and its tasks."""

    works: Mapping[tuple[int, int], Work]
    readers: Mapping[tuple[int, str], tuple[int, int]]

    def starts(self) -> pa.Table:
        """The first row of each task."""
        rows = [
            {"run": run, "sub": sub, "task": task, "topic": START, "partition": task}
            | {"moment": NEVER, "sender": -1, "number": -1, "count": 0}
            for (run, sub), work in self.works.items()
            for task in range(work.stage.kind.sub.partitions)
        ]
        return pa.Table.from_pylist(rows, schema=ROW)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the tasks whose rows these are, one behind the other; rows for others go on."""
        rows = (row for batch in batches for row in batch.to_pylist())
        for address, own in groupby(rows, itemgetter(*ADDRESS.names)):
            work = self.works.get(address[:2])
            given = (pa.RecordBatch.from_pylist([row], schema=SCHEMA) for row in own)
            for batch in given if work is None else work.run(given):
                for row in batch.to_pylist():
                    row |= zip(ADDRESS.names, self._address(address, row), strict=True)
                    yield pa.RecordBatch.from_pylist([row], schema=ROW)

    def _address(self, sender: Address, row: Mapping[str, Any]) -> Address:
        reader = self.readers.get((sender[0], row["topic"]))
        return sender if reader is None else (sender[0], reader[0], row["partition"] % reader[1])


def levels(wanted: Sequence[tuple[Run, Engine]], folder: Path) -> list[Level]:
    """The stages of all runs, those that send before those that read."""
    works: list[dict[tuple[int, int], Work]] = []
    readers: dict[tuple[int, str], tuple[int, int]] = {}
    for number, (run, engine) in enumerate(wanted):
        source = seal(engine.log, run.splits.values(), folder / str(number))
        depth: dict[int, int] = {}
        for stage in stages(run):
            sub = stage.kind.sub
            level = depth.get(sub.index, 0)
            works += [{} for _ in range(level + 1 - len(works))]
            functions = own_functions(engine.functions)
            works[level][number, sub.index] = Work(stage, source, run.inner, functions)
            if sub.output in run.inner:
                reader = run.reader_of(str(sub.output))
                depth[reader] = max(depth.get(reader, 0), level + 1)
                tasks = run.topology.subtopologies[reader].partitions
                readers[number, str(sub.output)] = (reader, tasks)
    return [Level(own, readers) for own in works]


def job(planned: Sequence[Level], session: SparkSession) -> DataFrame:
    """The rows that come out behind the last level."""
    rows: DataFrame | None = None
    for level in planned:
        starts = session.createDataFrame(level.starts())
        rows = (
            (starts if rows is None else rows.unionAll(starts))
            .repartitionById(SLOTS, f.pmod(f.hash(*ADDRESS.names), f.lit(SLOTS)).cast("int"))
            .sortWithinPartitions(*ADDRESS.names, "moment", "topic", "sender", "number")
            .mapInArrow(_runner(level), f"run int, sub int, task int, {COLUMNS}")
        )
    assert rows is not None
    return rows


def _runner(level: Level) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return level.run(batches)

    return run


def on_spark(
    master: str = "local[2]",
) -> Callable[[Sequence[tuple[Run, Engine]]], list[Made | Exception]]:
    """Carries out runs as one Spark job, on a session that lasts as long as the process."""
    spark = Spark(SparkSettings(master, options=MANY_JOBS))
    atexit.register(spark.close)

    def backend(wanted: Sequence[tuple[Run, Engine]]) -> list[Made | Exception]:
        if not wanted:
            return []
        folder = Path(tempfile.mkdtemp(prefix="millstream-sealed-"))
        try:
            with spark.using() as session:
                rows = job(levels(wanted, folder), session).toArrow().to_pylist()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        found: list[Made | Exception] = [[] for _ in wanted]
        for row in rows:
            own = found[row["run"]]
            if isinstance(own, Exception):
                continue
            try:
                item = produced(row["topic"], row["partition"], row["count"], row["content"])
            except Exception as error:
                found[row["run"]] = error
                continue
            if isinstance(item, Appended):
                own.append(item)
        return found

    return backend

"""Bounded runs of engines' queries on a Spark session of the tests."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
from pyspark.sql import functions as f

from millstream.history.job import planned
from millstream.history.sealed import seal
from millstream.history.session import Spark, SparkSettings
from millstream.history.splits import Run
from millstream.history.worker import produced
from millstream.log.log import Appended
from millstream.service.engine import Engine

QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}
"""For many small jobs."""
Made = list[Appended[pa.Table]]


def on_spark(
    master: str = "local[2]",
) -> Callable[[Sequence[tuple[Run, Engine]]], list[Made | Exception]]:
    """Carries out runs as one Spark job, on a session that lasts as long as the process."""
    spark = Spark(SparkSettings(master, options=QUICK))
    atexit.register(spark.close)

    def backend(wanted: Sequence[tuple[Run, Engine]]) -> list[Made | Exception]:
        folder = Path(tempfile.mkdtemp(prefix="millstream-sealed-"))
        try:
            with spark.using() as session:
                frames = [
                    planned(
                        run,
                        seal(engine.log, run.splits.values(), folder / str(number)),
                        engine.functions,
                        session,
                    ).withColumn("run", f.lit(number))
                    for number, (run, engine) in enumerate(wanted)
                ]
                rows = reduce(lambda one, other: one.unionAll(other), frames).collect()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        found: list[Made | Exception] = [[] for _ in wanted]
        for row in rows:
            own = found[row.run]
            if isinstance(own, Exception):
                continue
            try:
                item = produced(row.topic, row.partition, row["count"], bytes(row.content))
            except Exception as error:
                found[row.run] = error
                continue
            if isinstance(item, Appended):
                own.append(item)
        return found

    return backend

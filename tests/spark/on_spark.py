"""Bounded runs of an engine's queries on a Spark session of the tests."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from millstream.history.job import run_on_spark
from millstream.history.sealed import seal
from millstream.history.session import Spark, SparkSettings
from millstream.history.splits import Run
from millstream.history.task import Produced
from millstream.service.engine import Engine

QUICK = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}
"""For many small jobs."""


def on_spark(master: str = "local[2]") -> Callable[[Run, Engine], Iterator[Produced]]:
    """Runs on a session that lasts as long as the process."""
    spark = Spark(SparkSettings(master, options=QUICK))
    atexit.register(spark.close)

    def backend(run: Run, engine: Engine) -> Iterator[Produced]:
        folder = Path(tempfile.mkdtemp(prefix="millstream-sealed-"))
        try:
            source = seal(engine.log, run.splits.values(), folder)
            with spark.using() as session:
                yield from run_on_spark(run, source, engine.functions, session)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return backend

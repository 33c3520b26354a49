"""Runs topologies of an engine on Spark: one session, and the source that its workers read from."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from millstream.functions.function import Catalogue
from millstream.history.folders import OwnFolder
from millstream.history.from_kafka import FromKafka
from millstream.history.inline import beside, prepared
from millstream.history.progress import new_group, spark_stages
from millstream.history.reading import Source
from millstream.history.sealed import claim, seal
from millstream.history.session import Spark, SparkSettings
from millstream.history.shared import SEALED
from millstream.history.splits import Run, Split
from millstream.history.task import Produced
from millstream.history.watch import Watch
from millstream.history.within import Timed, Within
from millstream.log.log import Log


class OnSpark:
    """The Spark session of an engine. It is started when the first query needs it."""

    def __init__(self, settings: SparkSettings) -> None:
        self.spark = Spark(settings)
        self.kafka: FromKafka | None = None
        """How workers read the log from Kafka; None if the log is embedded."""
        self.database: str | None = None
        """The file of an embedded log: sealed segments are written beside it. None for a log in
        memory."""
        self.database_id = ""
        """The id of the log, by which sealed segments of another log are recognised."""
        self._temporary: OwnFolder | None = None
        self._sealing = threading.Lock()

    def produced(
        self,
        run: Run,
        timed: Mapping[str, Timed],
        log: Log[pa.Table],
        functions: Catalogue,
        watch: Watch,
        *,
        lazily: bool,
    ) -> Iterator[Produced]:
        """Run a topology as a job. `watch` shows its progress and may cancel it; for the rest see
        `history.job.run_on_spark`. Raises UnavailableError if PySpark, Java or the cluster is
        missing."""
        with self.spark.using() as session:
            from millstream.history.job import run_on_spark

            source = Within(self._source(run.splits.values(), log), timed)
            group = new_group()
            watch.follow(
                partial(spark_stages, session.sparkContext, group),
                partial(session.sparkContext.cancelJobGroup, group),
            )
            try:
                watch.check()
                for item in run_on_spark(
                    run, source, functions, session, group=group, lazily=lazily
                ):
                    watch.check()
                    yield item
            finally:
                watch.unfollow()

    def start(self) -> None:
        """Start the session now. Raises UnavailableError like `produced`."""
        with self.spark.using():
            pass

    def epoch(self, run: Run, log: Log[pa.Table], functions: Catalogue) -> Iterator[Produced]:
        """Run a topology over the records since the previous epoch. A small amount of records is
        sent with the jobs. Raises UnavailableError like `produced`."""
        with self.spark.using() as session:
            from millstream.history.job import run_on_spark
            from millstream.history.rounds import run_little_on_spark

            source, small = self._epoch_source(run, log)
            if small:
                yield from run_little_on_spark(run, source, functions, session)
            else:
                yield from run_on_spark(run, source, functions, session)

    def _epoch_source(self, run: Run, log: Log[pa.Table]) -> tuple[Source, bool]:
        """The source of the splits of an epoch, and whether its records are few."""
        splits = run.splits.values()
        if self.kafka is not None:
            states = {sub.changelog for sub in run.topology.subtopologies if sub.changelog}
            return beside(log, splits, self.kafka, states)
        with self.sealing() as folder:
            return prepared(log, splits, folder)

    def close(self) -> None:
        """Stop the session; idempotent."""
        self.spark.close()
        if self._temporary is not None:
            self._temporary.remove()
            self._temporary = None

    def _source(self, splits: Iterable[Split], log: Log[pa.Table]) -> Source:
        if self.kafka is not None:
            return self.kafka
        whole = [
            replace(split, start=log.start_offset(split.topic, split.partition)) for split in splits
        ]
        with self.sealing() as folder:
            return seal(log, whole, folder)

    @contextmanager
    def sealing(self) -> Iterator[Path]:
        """Hold the folder of sealed segments, into which one thread at a time may write."""
        with self._sealing:
            yield self._folder()

    def _folder(self) -> Path:
        if self.database is not None:
            folder = Path(self.database + SEALED)
            claim(folder, self.database_id)
            return folder
        if self._temporary is None:
            self._temporary = OwnFolder("sealed")
        return self._temporary.path

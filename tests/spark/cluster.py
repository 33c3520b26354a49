"""The flights and Nexmark on a standalone Spark cluster of two worker processes on this machine.

    python -m tests.spark.cluster [--rows N] [--events N]

The demo's script is run by the live engine and checked against plain DuckDB, Nexmark's queries are
run by the live engine; then each query is run on the cluster, over what the ones before it have
made there, and must end with the same records.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import millstream
from millstream.history.job import run_on_spark
from millstream.history.sealed import seal
from millstream.history.session import Spark, SparkSettings
from millstream.history.splits import Run, everything
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.service.engine import Engine
from tests.bench.run import load
from tests.bench.workloads import WORKLOADS
from tests.demo.check import differences
from tests.demo.run import SCRIPT, unpacked
from tests.spark.final import final, written
from tests.spark.parity import runs
from tests.spark.standalone import WORKERS, cluster

NEXMARK = ("W3", "W4", "W5", "W6")
EVENTS = 100_000


def copied(engine: Engine) -> EmbeddedLog:
    """A log with the records that no query of the engine has written."""
    log = EmbeddedLog.open(":memory:")
    sinks = {source.topic for source in engine.catalog.sources.values() if source.query_id}
    writer = log.writer("copy")
    for topic in engine.log.topics():
        if topic.name.startswith("_") or "-" in topic.name:
            continue
        log.create_topic(Topic(topic.name, topic.partitions))
        for partition in range(topic.partitions if topic.name not in sinks else 0):
            offset, end = 0, False
            while not end:
                read = engine.log.read(topic.name, partition, offset, 50_000)
                if read.count:
                    writer.append([Appended(topic.name, partition, read.batch, read.count)])
                offset, end = read.next_offset, read.end
    return log


def shortened(flights: Path, rows: int) -> Path:
    """The first flights of a file, in a file of their own."""
    path = flights.with_name("first.parquet")
    with duckdb.connect() as plain:
        plain.execute(f"COPY (FROM '{flights}' LIMIT {rows}) TO '{path}'")
    return path


def flights(spark: Spark, rows: int | None, folder: Path) -> int:
    """How many queries of the demo end differently on the cluster."""
    files = unpacked(folder)
    if rows is not None:
        files["FLIGHTS"] = shortened(files["FLIGHTS"], rows)
    with millstream.connect() as database:
        database.session.variables.update({name: str(path) for name, path in files.items()})
        for _ in database.each(SCRIPT.read_text(encoding="utf-8")):
            pass
        database.wait()
        found = differences(database, files)
        print("live engine against plain DuckDB:", "; ".join(found) or "equal", flush=True)
        return different(database.engine, spark, folder)


def nexmark(spark: Spark, events: int, folder: Path) -> int:
    """How many of Nexmark's queries end differently on the cluster."""
    path = str(folder / "nexmark.db")
    load(path, events)
    with millstream.connect(path, properties={"auto.offset.reset": "earliest"}) as database:
        for workload in WORKLOADS:
            if workload.name in NEXMARK:
                database.execute(workload.sql)
        database.wait()
        return different(database.engine, spark, folder)


def different(engine: Engine, spark: Spark, folder: Path) -> int:
    """How many queries of an engine end differently on Spark."""
    log = copied(engine)
    try:
        return sum(not same(engine, log, spark, topic, run, folder) for topic, run in runs(engine))
    finally:
        log.close()


def same(
    engine: Engine, log: EmbeddedLog, spark: Spark, topic: str, run: Run, folder: Path
) -> bool:
    """Run one query on the cluster over `log`, append what it makes, compare with the engine's."""
    started = time.monotonic()
    given = Run(run.topology, everything(log, run.topology), run.widths, run.cached)
    source = seal(log, given.splits.values(), folder / "sealed")
    writer, records = log.writer("spark"), 0
    with spark.using() as session:
        for item in run_on_spark(given, source, engine.functions, session):
            if isinstance(item, Appended):
                writer.append([item])
                records += item.count
    kind = engine.catalog.over_topic(topic)[0].kind
    equal = final(written(log, topic), kind) == final(written(engine.log, topic), kind)
    seconds = time.monotonic() - started
    print(
        f"{topic}: {records} records, {'equal' if equal else 'DIFFERENT'}, {seconds:.1f} s",
        flush=True,
    )
    return equal


def main() -> int:
    """Run the command; 1 when anything differs."""
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__)
    parser.add_argument("--rows", type=int, help="flights to take; all of them by default")
    parser.add_argument("--events", type=int, default=EVENTS, help="of Nexmark")
    options = parser.parse_args()
    with cluster() as master, tempfile.TemporaryDirectory(prefix="millstream-spark-") as folder:
        print(f"{master} with {WORKERS} workers", flush=True)
        spark = Spark(SparkSettings(master, options={"spark.executor.memory": "700m"}))
        try:
            places = [Path(folder, name) for name in ("flights", "nexmark")]
            for place in places:
                place.mkdir()
            wrong = flights(spark, options.rows, places[0])
            wrong += nexmark(spark, options.events, places[1])
        finally:
            spark.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

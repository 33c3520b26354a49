"""A standalone Spark cluster of two worker processes on this machine, and the flights on it.

    python -m tests.spark.cluster [--rows N]

The demo's script is run by the live engine and checked against plain DuckDB; then each of its
queries is run on the cluster, over what the ones before it have made there, and must end with the
same records.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import duckdb
import pyspark

import millstream
from millstream.history.job import run_on_spark
from millstream.history.sealed import seal
from millstream.history.session import Spark, SparkSettings
from millstream.history.splits import Run, everything
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.service.engine import Engine
from tests.demo.check import differences
from tests.demo.run import SCRIPT, unpacked
from tests.spark.final import final, written
from tests.spark.parity import runs

HOST = "127.0.0.1"
WORKERS = 2
PATIENCE_SECONDS = 300


@contextmanager
def cluster() -> Iterator[str]:
    """The address of a master with its workers, which end with the block."""
    home = str(Path(pyspark.__file__).parent)
    environment = os.environ | {
        "SPARK_HOME": home,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
    }
    port = free_port()
    master = f"spark://{HOST}:{port}"
    running: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="millstream-cluster-") as folder:
        output = Path(folder) / "output"
        with output.open("wb") as log:

            def begin(*arguments: str) -> None:
                command = [f"{home}/bin/spark-class", *arguments]
                running.append(_started(command, environment, folder, log))

            try:
                begin(
                    "org.apache.spark.deploy.master.Master",
                    *("--host", HOST, "--port", str(port), "--webui-port", str(free_port())),
                )
                wait_for(output, "Starting Spark master", 1)
                for _ in range(WORKERS):
                    begin(
                        "org.apache.spark.deploy.worker.Worker",
                        master,
                        *("--host", HOST, "--cores", "1", "--memory", "1g"),
                        *("--webui-port", str(free_port()), "--work-dir", folder),
                    )
                wait_for(output, "Registering worker", WORKERS)
                yield master
            finally:
                for process in reversed(running):
                    process.terminate()
                    process.wait(30)


def _started(
    command: list[str], environment: dict[str, str], folder: str, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT
    )


def wait_for(output: Path, text: str, times: int) -> None:
    """Wait until a text was printed so often."""
    until = time.monotonic() + PATIENCE_SECONDS
    while output.read_text(errors="replace").count(text) < times:
        if time.monotonic() > until:
            raise SystemExit(f"The cluster did not start:\n{output.read_text(errors='replace')}")
        time.sleep(0.1)


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


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


def flights(master: str, rows: int | None) -> int:
    """How many queries of the demo end differently on the cluster."""
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="millstream-flights-") as folder:
        files = unpacked(Path(folder))
        if rows is not None:
            files["FLIGHTS"] = shortened(files["FLIGHTS"], rows)
        with millstream.connect() as database:
            variables = {name: str(path) for name, path in files.items()}
            database.session.variables.update(variables)
            for _ in database.each(SCRIPT.read_text(encoding="utf-8")):
                pass
            database.wait()
            found = differences(database, files)
            print("live engine against plain DuckDB:", "; ".join(found) or "equal", flush=True)
            log = copied(database.engine)
            spark = Spark(SparkSettings(master, options={"spark.executor.memory": "700m"}))
            try:
                for topic, run in runs(database.engine):
                    wrong += not same(database.engine, log, spark, topic, run, Path(folder))
            finally:
                spark.close()
                log.close()
    return wrong


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
    print(f"{topic}: {records} records, {'equal' if equal else 'DIFFERENT'}, {seconds:.1f} s")
    return equal


def main() -> int:
    """Run the command; 1 when anything differs."""
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__)
    parser.add_argument("--rows", type=int, help="flights to take; all of them by default")
    options = parser.parse_args()
    with cluster() as master:
        print(f"{master} with {WORKERS} workers", flush=True)
        return 1 if flights(master, options.rows) else 0


if __name__ == "__main__":
    sys.exit(main())

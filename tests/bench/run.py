"""CPU seconds per million input records on the embedded log, one process, four partitions.

Each workload runs in a fresh process on a file that holds the input already. The figure is all CPU
that the process used from its start to the end of its last commit, import of the engine included;
loading the input is another process's work. `--markdown FILE` writes the table.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.bench.workloads import AUCTION, BID, PERSON, WORKLOADS, Workload

EVENTS = 1_000_000
PARTITIONS = 4
LOAD_BATCH = 100_000


def load(path: str, events: int) -> None:
    """Write bids (round robin), auctions and persons (by key) into a new database file."""
    import numpy as np
    import pyarrow as pa

    import millstream
    from millstream.formats.partition import partition_of
    from millstream.log.log import Appended
    from tests.bench import nexmark

    with millstream.connect(path) as database:
        database.execute(BID + AUCTION + PERSON)
        values, times = nexmark.bids(events)
        loads = [("bid", nexmark.raw(values, None, times), np.arange(len(times)) % PARTITIONS)]
        for topic, made in (("auction", nexmark.auctions), ("person", nexmark.persons)):
            values, ids, times = made(events)
            keys = nexmark.bigint_keys(ids)
            loads.append((topic, nexmark.raw(values, keys, times), partition_of(keys, PARTITIONS)))
        for topic, table, chosen in loads:
            for partition in range(PARTITIONS):
                rows = table.filter(pa.array(chosen == partition))
                for start in range(0, rows.num_rows, LOAD_BATCH):
                    piece = rows.slice(start, LOAD_BATCH)
                    appended = Appended(topic, partition, piece, piece.num_rows, piece.nbytes)
                    database.engine.writer.append([appended])


def measure(path: str, name: str, guarantee: str) -> dict[str, Any]:
    """Run one workload to the end of its input in this process."""
    import millstream

    workload = next(item for item in WORKLOADS if item.name == name)
    properties = {
        "auto.offset.reset": "earliest",
        "processing.guarantee": guarantee,
        "commit.interval.ms": "1000",
        "cache.max.bytes.buffering": "10485760" if workload.cached else "0",
    }
    settings = millstream.EngineSettings(commit_interval_ms=1000)
    with millstream.connect(path, properties=properties, settings=settings) as database:
        started, cpu = time.perf_counter(), time.process_time()
        query_id = database.execute(workload.sql).query_id  # type: ignore[union-attr]
        database.wait()
        elapsed, used = time.perf_counter() - started, time.process_time() - cpu
        (status,) = [s for s in database.engine.statuses() if s.query_id == query_id]
        if status.error:
            raise SystemExit(f"{name} failed: {status.error}")
        sink = workload.name.rstrip("c")
        written, inputs = (
            records_in(database.engine, topics) for topics in ((sink,), workload.inputs)
        )
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "name": name,
        "records": inputs,
        "written": written,
        "cpu": usage.ru_utime + usage.ru_stime,
        "cpu_query": used,
        "seconds": elapsed,
        "rss_mb": usage.ru_maxrss // 1024,
    }


def records_in(engine: Any, topics: Iterable[str]) -> int:
    """How many records the topics hold together."""
    ends = (engine.log.end_offset(topic, part) for topic in topics for part in range(PARTITIONS))
    return sum(ends)


def run(names: list[str], events: int, guarantee: str, keep: Path) -> list[dict[str, Any]]:
    """Measure workloads, each in a process and on a copy of the file of its own."""
    source = keep / "input.db"
    _child("load", str(source), str(events))
    results = []
    for name in names:
        copy = keep / f"{name}.db"
        shutil.copyfile(source, copy)
        results.append(json.loads(_child("one", str(copy), name, guarantee)))
        for path in keep.glob(f"{name}.db*"):
            path.unlink()
        show(results[-1])
    return results


def show(result: dict[str, Any]) -> None:
    """Print one result as a line."""
    workload = _workload(result["name"])
    million = result["records"] / 1e6
    per_million = result["cpu"] / million
    verdict = "ok" if per_million <= workload.budget else "OVER"
    print(
        f"{workload.name:4} {workload.title:46} {per_million:6.2f} CPU-s/M"
        f" (query alone {result['cpu_query'] / million:5.2f}, budget {workload.budget}) {verdict:4}"
        f" {result['records'] / result['seconds'] / 1e3:7.0f} k rec/s {result['rss_mb']:5} MB"
        f" {result['written']:8} out",
        flush=True,
    )


def markdown(results: list[dict[str, Any]]) -> str:
    """The table for docs/benchmarks.md."""
    lines = [
        "| W | work | CPU-s/M | query alone | budget | Kafka Streams | k rec/s | RSS MB | out |",
        "|--|--|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for result in results:
        workload, million = _workload(result["name"]), result["records"] / 1e6
        lines.append(
            f"| {workload.name} | {workload.title} | {result['cpu'] / million:.2f} "
            f"| {result['cpu_query'] / million:.2f} | {workload.budget} "
            f"| {workload.kafka_streams or '-'} "
            f"| {result['records'] / result['seconds'] / 1e3:.0f} "
            f"| {result['rss_mb']} | {result['written']} |"
        )
    return "\n".join(lines) + "\n"


def _workload(name: str) -> Workload:
    return next(item for item in WORKLOADS if item.name == name)


def _child(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.bench.run", *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with exit code {done.returncode}")
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def main(arguments: list[str]) -> int:
    """Run the command."""
    if arguments[:1] == ["load"]:
        load(arguments[1], int(arguments[2]))
        return 0
    if arguments[:1] == ["one"]:
        print(json.dumps(measure(*arguments[1:4])))
        return 0
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--only", nargs="*", default=[item.name for item in WORKLOADS])
    parser.add_argument("--guarantee", default="at_least_once")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args(arguments)
    print(f"Python {platform.python_version()}, {options.events} events, {options.guarantee}")
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
        results = run(options.only, options.events, options.guarantee, Path(folder))
    if options.markdown:
        options.markdown.write_text(markdown(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

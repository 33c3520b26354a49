"""CPU seconds per million input records on the embedded log, one process, four partitions.

Each workload runs in a fresh process on a file that holds the input already. The figure is all CPU
that the process used from its start to the end of its last commit, import of the engine included;
loading the input is another process's work. `--markdown FILE` writes the table. `--cores` runs each
workload with one processing thread and with two, and prints what the second one brings. `--formats
JSON AVRO` runs each with all values, read and written, in these formats, and prints their CPU
beside the first one's.
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


def load(path: str, events: int, form: str = "JSON") -> None:
    """Write bids (round robin), auctions and persons (by key) into a new database file, with values
    in a format."""
    import numpy as np
    import pyarrow as pa

    import millstream
    from millstream.formats.partition import partition_of
    from millstream.log.log import Appended
    from tests.bench import nexmark

    with millstream.connect(path) as database:
        script = BID + AUCTION + (PERSON if form == "JSON" else "")
        database.execute(script.replace("'JSON'", f"'{form}'"))
        values, times = nexmark.bids(events)
        loads = [("bid", nexmark.raw(values, None, times), np.arange(len(times)) % PARTITIONS)]
        keyed = [("auction", nexmark.auctions)]
        if form == "JSON":
            keyed.append(("person", nexmark.persons))
        for topic, made in keyed:
            values, ids, times = made(events)
            keys = nexmark.bigint_keys(ids)
            loads.append((topic, nexmark.raw(values, keys, times), partition_of(keys, PARTITIONS)))
        for topic, table, chosen in loads:
            for partition in range(PARTITIONS):
                rows = table.filter(pa.array(chosen == partition))
                for start in range(0, rows.num_rows, LOAD_BATCH):
                    piece = rows.slice(start, LOAD_BATCH)
                    if form != "JSON":
                        piece = in_format(database, topic, piece, form)
                    appended = Appended(topic, partition, piece, piece.num_rows, piece.nbytes)
                    database.engine.writer.append([appended])


def in_format(database: Any, topic: str, table: Any, form: str) -> Any:
    """Records of a topic whose values are JSON, in the format that its stream or table has."""
    import duckdb

    from millstream.formats.codec import read_payload, write_payload
    from millstream.formats.payload import Layout, Subject
    from millstream.model.schema import Role

    source = database.engine.catalog.sources[topic.upper()]
    columns = tuple(column for column in source.schema.columns if column.role is Role.VALUE)
    subject = Subject(database.engine.schemas, f"{topic}-value", topic.upper(), is_key=False)
    layout = Layout(columns, tuple(range(len(columns))), subject=subject)
    with duckdb.connect() as con:
        values = table["value"].combine_chunks()
        found = read_payload(con, values, layout, "JSON")
        written = write_payload(con, list(found.columns), layout, form, len(table))
    assert not found.bad and not written.bad
    return table.set_column(table.column_names.index("value"), "value", written.payload)


def formats(names: list[str], events: int, guarantee: str, keep: Path, compared: list[str]) -> None:
    """Print the CPU of each workload in each format, and how many times that of the first one."""
    for form in compared:
        _child("load", str(keep / f"{form}.db"), str(events), form)
    for name in names:
        figures = {}
        for form in compared:
            copy = keep / f"{name}.db"
            shutil.copyfile(keep / f"{form}.db", copy)
            result = json.loads(_child("one", str(copy), name, guarantee, "2"))
            figures[form] = 1e6 * result["cpu"] / result["records"]
            for path in keep.glob(f"{name}.db*"):
                path.unlink()
        first = figures[compared[0]]
        cells = (f"{form} {figures[form]:.2f} ({figures[form] / first:.2f})" for form in compared)
        print(f"{name:4} CPU-s/M: {', '.join(cells)}", flush=True)


def measure(path: str, name: str, guarantee: str, threads: int = 2) -> dict[str, Any]:
    """Run one workload to the end of its input in this process, by so many processing threads."""
    import millstream

    workload = next(item for item in WORKLOADS if item.name == name)
    properties = {
        "auto.offset.reset": "earliest",
        "processing.guarantee": guarantee,
        "commit.interval.ms": "1000",
        "cache.max.bytes.buffering": "10485760" if workload.cached else "0",
    }
    settings = millstream.EngineSettings(commit_interval_ms=1000, processing_threads=threads)
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
        results.append(json.loads(_child("one", str(copy), name, guarantee, "2")))
        for path in keep.glob(f"{name}.db*"):
            path.unlink()
        show(results[-1])
    return results


def cores(names: list[str], events: int, guarantee: str, keep: Path) -> None:
    """Print, for each workload, the records a second and the CPU of a record with two processing
    threads, as multiples of those with one. Other work on the machine makes the first too small."""
    source = keep / "input.db"
    _child("load", str(source), str(events))
    for name in names:
        found = []
        for threads in (1, 2):
            copy = keep / f"{name}.db"
            shutil.copyfile(source, copy)
            found.append(json.loads(_child("one", str(copy), name, guarantee, str(threads))))
            for path in keep.glob(f"{name}.db*"):
                path.unlink()
        one, two = found
        speed, cpu = one["seconds"] / two["seconds"], two["cpu_query"] / one["cpu_query"]
        rates = " and ".join(f"{each['records'] / each['seconds'] / 1e3:.0f}" for each in found)
        print(f"{name:4} {rates} k rec/s: {speed:.2f} times as many, {cpu:.2f} times the CPU")


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
        load(arguments[1], int(arguments[2]), *arguments[3:])
        return 0
    if arguments[:1] == ["one"]:
        print(json.dumps(measure(*arguments[1:4], threads=int(arguments[4]))))
        return 0
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--only", nargs="*", default=[item.name for item in WORKLOADS])
    parser.add_argument("--guarantee", default="at_least_once")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--cores", action="store_true")
    parser.add_argument("--formats", nargs="*")
    options = parser.parse_args(arguments)
    print(f"Python {platform.python_version()}, {options.events} events, {options.guarantee}")
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
        if options.cores:
            cores(options.only, options.events, options.guarantee, Path(folder))
            return 0
        if options.formats:
            formats(
                *(options.only, options.events, options.guarantee, Path(folder)), options.formats
            )
            return 0
        results = run(options.only, options.events, options.guarantee, Path(folder))
    if options.markdown:
        options.markdown.write_text(markdown(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

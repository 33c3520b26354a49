"""`make profile`: CPU of the process by stage, for each input record, as one table.

    python -m tests.bench.profile [W1,W3 | all] [--log kafka] [--events 1000000] [--seconds 20]

The stages add up to what the process uses from the statement to the last commit. Each counts what
it does itself, not what it calls, if that is a stage too. DuckDB computes in the thread that calls
it; the threads of the Kafka client are a stage of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.stage_clock import OTHER, StageClock
from tests.bench.workloads import WORKLOADS, Workload

if TYPE_CHECKING:
    from millstream.service.database import Database

EXECUTOR = "millstream.executor.executor"
GROUP = "millstream.executor.task_group"
STAGES = {
    "millstream.service.database:Database.execute": "statement",
    "millstream.statements.row_inserts:RowInserts.insert": "insert",
    "millstream.log.ahead:AheadReader.begin": "fetch",
    "millstream.log.ahead:AheadReader.read": "fetch",
    "millstream.log.embedded_reads:EmbeddedReads._read_tables": "fetch",
    "millstream.executor.source_reader:SourceReader.read": "decode",
    "millstream.executor.exchange_read:Unpacked.rows": "decode",
    "millstream.executor.exchange_read:Unpacked.rows_of_senders": "decode",
    f"{GROUP}:take_in": "order",
    f"{EXECUTOR}:in_order": "order",
    f"{GROUP}:run_steps": "program",
    f"{EXECUTOR}:DuckDBExecutor.flush": "state",
    f"{EXECUTOR}:DuckDBExecutor.commit": "state",
    "millstream.state.store:Session.upsert": "state",
    f"{EXECUTOR}:DuckDBExecutor._emit": "encode",
    f"{EXECUTOR}:DuckDBExecutor._made": "encode",
    f"{EXECUTOR}:DuckDBExecutor._records": "encode",
    "millstream.executor.sink:Encoded.appended": "encode",
    "millstream.executor.exchange_write:sent": "encode",
    "millstream.log.embedded:EmbeddedLog._write": "append",
    "millstream.log.embedded:EmbeddedLog.maintain": "upkeep",
    "millstream.runtime.runtime:Runtime.commit_round": "commit",
    "millstream.runtime.runtime:Runtime.commit_query": "commit",
    "millstream.scheduler.driver:Driver._run": "scheduling",
}
"""What counts to which stage. The rest of a processing thread is scheduling."""
KAFKA_STAGES = {
    "millstream.log.kafka.reader:KafkaReader.begin": "fetch",
    "millstream.log.kafka.reader:KafkaReader.read": "fetch",
    "millstream.log.kafka.fetcher:Fetcher._run": "fetch",
    "millstream.log.kafka.plain_producers:PlainProducers.send": "append",
    "millstream.log.kafka.transactions:Transactions.carry_out": "append",
}
CLIENT = "Kafka client"
NATIVE = {"rdk:": CLIENT}
ORDER = ("statement", "insert", "fetch", CLIENT, "decode", "order", "program", "state", "encode",
         "append", "commit", "upkeep", "scheduling")  # fmt: skip
TRICKLE = "trickle"
SERVICE = "profile-"
"""How the service ids begin, and the names of topics on Kafka."""
PATIENCE_SECONDS = 300.0


def profile(name: str, path: str, servers: str, seconds: float) -> tuple[dict[str, float], int]:
    """CPU seconds by stage, and the number of input records. `path`: a database; embedded, it holds
    the input already."""
    clock = StageClock(NATIVE)
    with clock.watching(STAGES | (KAFKA_STAGES if servers else {})):
        if name == TRICKLE:
            return _trickle(clock, Path(path), seconds)
        return _workload(clock, _named(name), path, servers)


def _trickle(clock: StageClock, path: Path, seconds: float) -> tuple[dict[str, float], int]:
    from tests.bench.figures.catalogue import Scale
    from tests.bench.figures.setting import Setting
    from tests.bench.figures.trickle import BATCHES_A_SECOND, ROWS, trickle

    setting = Setting(path.parent, Scale(trickle=seconds), frozenset({"trickle"}))
    with clock.measured() as spent:
        list(trickle(setting))
    return spent, round(seconds * BATCHES_A_SECOND) * ROWS


def _workload(
    clock: StageClock, workload: Workload, path: str, servers: str
) -> tuple[dict[str, float], int]:
    import millstream
    from tests.bench.run import PARTITIONS

    properties = {
        "auto.offset.reset": "earliest",
        "commit.interval.ms": "1000",
        "ksql.persistence.default.format.key": "JSON" if servers else "KAFKA",
        "cache.max.bytes.buffering": "10485760" if workload.cached else "0",
    }
    service, sql = f"{SERVICE}{os.getpid()}", workload.sql
    with millstream.connect(
        path, kafka=servers or None, service_id=service, properties=properties
    ) as database:
        if servers:
            from tests.bench.kafka.engine import sources, statement

            database.execute(sources("bid", PARTITIONS))
            sql = statement(workload, f"{service}-{workload.name}")
        places = [(topic, part) for topic in workload.inputs for part in range(PARTITIONS)]
        ends = database.engine.log.end_offsets(places)
        with clock.measured() as spent:
            query_id = database.execute(sql).query_id  # type: ignore[union-attr]
            _finish(database, query_id, ends)
    return spent, sum(ends.values())


def _finish(
    database: Database,
    query_id: str,
    ends: Mapping[tuple[str, int], int],
) -> None:
    """Wait until a query has processed and committed everything before these offsets."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        database.wait()
        (status,) = [s for s in database.engine.statuses() if s.query_id == query_id]
        if status.error:
            raise SystemExit(f"{query_id} failed: {status.error}")
        if all(status.positions.get(place, 0) >= end for place, end in ends.items()):
            return
        time.sleep(0.02)
    raise SystemExit(f"{query_id} did not read its input within {PATIENCE_SECONDS:.0f} s")


def _named(name: str) -> Workload:
    return next(item for item in WORKLOADS if item.name == name)


def table(columns: Mapping[str, tuple[Mapping[str, float], int]]) -> str:
    """Microseconds of CPU for each input record, and shares. `columns`: of each workload, what
    `profile` returns."""
    used = {stage for spent, _ in columns.values() for stage in spent}
    stages = [stage for stage in ORDER if stage in used]
    stages += [*sorted(used - {*ORDER, OTHER}), OTHER]
    lines = [f"| us/record | {' | '.join(columns)} |", "|--|" + "--:|" * len(columns)]
    lines += [
        _row(stage, [(spent.get(stage, 0.0), spent, n) for spent, n in columns.values()])
        for stage in stages
    ]
    totals = [(sum(spent.values()), spent, n) for spent, n in columns.values()]
    return "\n".join([*lines, _row("total", totals)])


def _row(stage: str, cells: list[tuple[float, Mapping[str, float], int]]) -> str:
    texts = [
        f"{1e6 * value / records:.3f} ({100 * value / sum(spent.values()):.0f} %)"
        for value, spent, records in cells
    ]
    return f"| {stage} | {' | '.join(texts)} |"


def run(names: list[str], events: int, seconds: float, servers: str) -> str:
    """Profile each in a process of its own; the table."""
    columns = {}
    with tempfile.TemporaryDirectory(prefix="millstream-profile-") as folder:
        source = Path(folder) / "input.db"
        if servers:
            from tests.bench.kafka.load import DEFAULT_PARTITIONS, load

            load(servers, events, DEFAULT_PARTITIONS)
        elif names != [TRICKLE]:
            _child("tests.bench.run", "load", str(source), str(events))
        for name in names:
            copy = Path(folder) / name / "copy.db"
            copy.parent.mkdir()
            if source.exists() and name != TRICKLE:
                shutil.copyfile(source, copy)
            spent, records = json.loads(
                _child("tests.bench.profile", "--one", name, str(copy), servers, str(seconds))
            )
            columns[name] = (spent, records)
            shutil.rmtree(copy.parent)
    return table(columns)


def _child(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], check=False, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit status {done.returncode}")
    return done.stdout.strip().rpartition("\n")[2]


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The options."""
    known = [*(item.name for item in WORKLOADS), TRICKLE]
    parser = argparse.ArgumentParser(prog="make profile", description=__doc__)
    parser.add_argument("workloads", nargs="?", default="all", help=f"all or: {','.join(known)}")
    parser.add_argument("--log", choices=("embedded", "kafka"), default="embedded")
    parser.add_argument("--kafka", help="host:port of an empty broker; otherwise one is started")
    parser.add_argument("--events", type=int, default=1_000_000, help="92 %% of them are bids")
    parser.add_argument("--seconds", type=float, default=20.0, help="of the trickle")
    options = parser.parse_args(arguments)
    options.names = known if options.workloads == "all" else options.workloads.split(",")
    if options.log == "kafka":
        options.names = [name for name in options.names if name != TRICKLE]
    for name in options.names:
        if name not in known:
            parser.error(f"there is no workload '{name}'; there are {', '.join(known)}")
    return options


def main(arguments: list[str]) -> int:
    """Run the command."""
    if arguments[:1] == ["--one"]:
        name, path, servers, seconds = arguments[1:]
        print(json.dumps(profile(name, path, servers, float(seconds))))
        return 0
    options = parsed(arguments)
    print(f"Python {platform.python_version()}, {options.log}, load {os.getloadavg()[0]:.1f}\n")
    with ExitStack() as stack:
        servers = ""
        if options.log == "kafka":
            from tests.bench.kafka.run import broker

            cluster = stack.enter_context(broker(options.kafka, 0))
            servers = cluster.servers
            made = ("bid", "auction", "person", SERVICE, f"_millstream.{SERVICE}")
            stack.callback(cluster.delete, made)
        print(run(options.names, options.events, options.seconds, servers))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

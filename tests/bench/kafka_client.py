"""CPU microseconds per record of Kafka's client as the engine uses it, plain and compiled.

`intake`: a consumer's messages to Arrow. `reader`: a `KafkaReader`, which keeps them as well.
`writer`: a `KafkaWriter`, transactions of some 100,000 records. Bids of Nexmark (JSON) on four
partitions; each figure is of a process of its own, and of all its threads. Without `--kafka` a
broker is started for it. `--set` changes a setting of the client.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from millstream.log.kafka.backend import SWITCH, compiled_client, open_intake
from millstream.log.kafka.client import consumer_config
from millstream.log.kafka.log import KafkaLog
from millstream.log.log import Appended, Topic
from tests.bench import nexmark

TOPIC = "bench-client"
PARTITIONS = 4
TRANSACTION = 100_000
RECORDS = 1_000_000
REPEAT = 3
SECONDS = 60.0
Settings = dict[str, str]
Figures = dict[str, float]


@contextmanager
def clocked(records: int) -> Iterator[Figures]:
    """Fills in what was used per record by the end of the block."""
    found: Figures = {}
    starts = time.process_time(), time.thread_time(), time.perf_counter()
    yield found
    ends = time.process_time(), time.thread_time(), time.perf_counter()
    names = ("process", "thread", "wall")
    for name, start, end in zip(names, starts, ends, strict=True):
        found[name] = (end - start) * 1e6 / records


def write(servers: str, records: int, settings: Settings) -> Figures:
    """To a new topic, which the other measures read."""
    log = KafkaLog(servers, settings=settings)
    log.delete_topic(TOPIC)
    log.create_topic(Topic(TOPIC, PARTITIONS))
    values, times = nexmark.bids(TRANSACTION)
    keys = pa.array([b"%08d" % row for row in range(len(values))], pa.binary())
    batch = nexmark.raw(values, keys, times)
    share = batch.num_rows // PARTITIONS
    parts = [
        Appended(TOPIC, partition, batch.slice(partition * share, share), share)
        for partition in range(PARTITIONS)
    ]
    writer = log.writer("bench")
    writer.append(parts)
    rounds = max(1, records // (share * PARTITIONS))
    with clocked(rounds * share * PARTITIONS) as found:
        for _ in range(rounds):
            writer.append(parts)
    log.close()
    return found


def take(servers: str, records: int, settings: Settings) -> Figures:
    """By the intake alone: `thread` is the one that polls."""
    from confluent_kafka import TopicPartition

    intake = open_intake(consumer_config(servers, "bench", settings))
    deadline = time.monotonic() + SECONDS
    left = records
    with clocked(records) as found:
        intake.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        while left > 0 and time.monotonic() < deadline:
            left -= sum(len(piece) for _, piece in intake.take(0.1) if isinstance(piece, pa.Table))
    assert left <= 0, f"{left} records are missing"
    intake.close()
    return found


def read(servers: str, records: int, settings: Settings) -> Figures:
    """By the reader of a query, a round after the other."""
    log = KafkaLog(servers, settings=settings)
    reader = log.reader()
    offsets = dict.fromkeys(range(PARTITIONS), 0)
    deadline = time.monotonic() + SECONDS
    left = records
    with clocked(records) as found:
        while left > 0 and time.monotonic() < deadline:
            reader.begin()
            came = 0
            for partition, offset in offsets.items():
                fetched = reader.read(TOPIC, partition, offset, TRANSACTION)
                offsets[partition] = fetched.next_offset
                came += fetched.batch.num_rows
            left -= came
            if not came:
                time.sleep(0.005)
    assert left <= 0, f"{left} records are missing"
    log.close()
    return found


MEASURES: dict[str, Callable[[str, int, Settings], Figures]] = {
    "writer": write,
    "intake": take,
    "reader": read,
}


def run(options: argparse.Namespace, servers: str) -> None:
    """All measures, one process after the other; the medians and what they lie between."""
    own = [sys.executable, "-m", "tests.bench.kafka_client", "--kafka", servers]
    own += ["--records", str(options.records), *(f"--set={item}" for item in options.set)]
    kinds = ("plain", "compiled") if compiled_client() is not None else ("plain",)
    print("CPU us per record       process (least-most)   its calling thread   wall us")
    for measure in MEASURES if options.only is None else (options.only,):
        for kind in kinds:
            found: list[Figures] = []
            for _ in range(options.repeat):
                command = [*own, "--measure", measure]
                environment = {**os.environ, SWITCH: kind}
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
                found.append(json.loads(done.stdout))
            process = sorted(one["process"] for one in found)
            thread, wall = (
                statistics.median(one[name] for one in found) for name in ("thread", "wall")
            )
            print(
                f"{measure:8} {kind:10} {statistics.median(process):10.2f}"
                f" ({process[0]:.2f}-{process[-1]:.2f}) {thread:16.2f} {wall:16.2f}",
                flush=True,
            )


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="kafka_client", description=__doc__)
    parser.add_argument("--kafka", default=os.environ.get("MILLSTREAM_KAFKA"), help="host:port")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--repeat", type=int, default=REPEAT)
    parser.add_argument("--only", choices=MEASURES)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        settings = dict(item.split("=", 1) for item in options.set)
        figures: Any = MEASURES[options.measure](options.kafka, options.records, settings)
        print(json.dumps(figures))
    elif options.kafka:
        run(options, options.kafka)
    else:
        from tests.kafka.run import cluster

        with cluster() as (servers, _):
            run(options, servers)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

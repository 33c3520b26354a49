"""`make bench-kafka`: Millstream on a real broker, beside Kafka Streams and Flink SQL.

Starts a broker of its own, fills it with Nexmark's bids, auctions and persons, and runs each
workload in processes of their own until all input is processed and committed. Reports the CPU
seconds of the process tree per million input records (starting up apart), those of the broker,
and the peak of resident memory; every sink is checked against plain DuckDB.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.kafka.check import Expected
from tests.bench.kafka.cluster import Cluster
from tests.bench.kafka.contenders import COMMANDS, Race, built
from tests.bench.kafka.latency import latencies
from tests.bench.kafka.load import DEFAULT_PARTITIONS, load, topic_of
from tests.bench.kafka.watch import measured
from tests.bench.workloads import WORKLOADS, Workload
from tests.kafka.run import cluster

MODES = {"alos": (False, 1000), "eos": (True, 1000), "eos100": (True, 100)}
"""Exactly once or not, and the interval of commits in ms."""
EVENTS = 2_000_000
HEAD = (
    "| W | contender | mode | CPU-s/M | start CPU-s | broker CPU-s/M | k rec/s | RSS MB | result |"
)


@contextmanager
def broker(servers: str | None, process: int) -> Iterator[Cluster]:
    """The broker to use: one that is there already, or one of our own."""
    if servers is not None:
        yield Cluster(servers, process)
        return
    os.environ.setdefault("KAFKA_LOCAL_JVM_OPTS", "-Xms1g -Xmx1g")
    with cluster() as (own, environment):
        pid = Path(environment["KAFKA_LOCAL_DATA"], "broker-1", "pid").read_text(encoding="utf-8")
        yield Cluster(own, int(pid.split()[0]))


def races(options: argparse.Namespace, peers: list[str]) -> Iterator[tuple[Race, str, int]]:
    """What to run, in its order: with which reader, and how many instances."""
    numbers = itertools.count(int(time.time()))
    ways = [
        ("millstream", reader, count) for reader in options.readers for count in options.instances
    ]
    for partitions, workload, mode in itertools.product(
        options.partitions, options.workloads, options.modes
    ):
        theirs = peers if partitions == DEFAULT_PARTITIONS and workload.name != "WS" else []
        for contender, reader, count in [*ways, *((peer, "", 1) for peer in theirs)]:
            exactly_once, commit_ms = MODES[mode]
            name = f"{contender}-{workload.name}-{next(numbers)}"
            bids = topic_of("bid", partitions)
            race = Race(contender, workload, exactly_once, commit_ms, partitions, name, bids)
            yield race, reader, count


def run(options: argparse.Namespace, target: Cluster, peers: list[str]) -> bool:
    """Run all; whether all sinks hold what they must."""
    print(HEAD, "|--|--|--|--:|--:|--:|--:|--:|--|", sep="\n", flush=True)
    well = True
    expected = Expected(options.events) if options.check else None
    for race, reader, count in races(options, peers):
        found = measured(race, target, options.built, reader, count)
        result = "-" if expected is None else expected.verdict(target.servers, race)
        well &= "WRONG" not in result
        mode = next(
            name for name, way in MODES.items() if way == (race.exactly_once, race.commit_ms)
        )
        many = f" x{count}" if count > 1 else ""
        wide = f" p{race.partitions}" if race.partitions != DEFAULT_PARTITIONS else ""
        print(
            f"| {race.workload.name}{wide} | {race.contender}{many} {reader} | {mode}"
            f" | {found['cpu']:.2f} | {found['start_cpu']:.2f} | {found['broker']:.2f}"
            f" | {found['rate'] / 1e3:.0f} | {found['peak_mb']:.0f} | {result} |",
            flush=True,
        )
        target.delete((race.name, f"_millstream.{race.name}."))
    return well


def run_latencies(options: argparse.Namespace, target: Cluster, peers: list[str]) -> None:
    """The latency of single records, of each contender."""
    ways = [("millstream", reader) for reader in options.readers] + [(peer, "") for peer in peers]
    numbers = itertools.count(int(time.time()))
    for workload, mode in itertools.product(options.workloads, options.modes):
        for contender, reader in ways:
            exactly_once, commit_ms = MODES[mode]
            name = f"latency-{contender}-{workload.name}-{next(numbers)}"
            race = Race(
                contender, workload, exactly_once, commit_ms, DEFAULT_PARTITIONS, name,
                f"{name}-in", live=True,
            )  # fmt: skip
            found = latencies(race, target, options.built, reader)
            print(f"| {workload.name} | {contender} {reader} | {mode} | {found} |", flush=True)
            target.delete((race.name, f"_millstream.{race.name}."))


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The options."""
    names = [item.name for item in WORKLOADS if item.name != "WS"]
    parser = argparse.ArgumentParser(prog="make bench-kafka", description=__doc__)
    parser.add_argument("--only", default=",".join(names), help="workloads, comma separated")
    parser.add_argument("--peers", default="none", help=f"none, or some of {','.join(COMMANDS)}")
    parser.add_argument("--modes", default="alos,eos,eos100")
    parser.add_argument("--readers", default="plain,compiled")
    parser.add_argument("--events", type=int, default=EVENTS, help="92 %% of them are bids")
    parser.add_argument("--partitions", default=str(DEFAULT_PARTITIONS))
    parser.add_argument("--instances", default="1")
    parser.add_argument("--latency", action="store_true", help="of single records, instead")
    parser.add_argument("--no-check", dest="check", action="store_false")
    parser.add_argument("--sources", type=Path, default=Path("../shared/bench"))
    parser.add_argument("--built", type=Path, default=Path(".bench-peers"))
    parser.add_argument("--servers", help="a broker that is there and holds the input already")
    parser.add_argument("--broker", type=int, default=0, help="its process")
    options = parser.parse_args(arguments)
    options.workloads = [_workload(name) for name in options.only.split(",")]
    options.readers = options.readers.split(",")
    options.modes = options.modes.split(",")
    options.partitions = [int(number) for number in options.partitions.split(",")]
    options.instances = [int(number) for number in options.instances.split(",")]
    options.built = options.built.resolve()
    return options


def _workload(name: str) -> Workload:
    found = [item for item in WORKLOADS if item.name == name]
    if not found:
        raise SystemExit(f"There is no workload '{name}'")
    return found[0]


def main(arguments: list[str]) -> int:
    """Run the command; 1 when a sink does not hold what it must."""
    options = parsed(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    wanted = [] if options.peers == "none" else options.peers.split(",")
    peers = built(wanted, options.sources, options.built)
    load_now = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {options.events} events, load {load_now:.1f}")
    with broker(options.servers, options.broker) as target:
        if options.latency:
            for source in ("auction", "person") if options.servers is None else ():
                target.create(topic_of(source, DEFAULT_PARTITIONS), DEFAULT_PARTITIONS)
            run_latencies(options, target, peers)
            return 0
        if options.servers is None:
            for partitions in options.partitions:
                load(target.servers, options.events, partitions)
        return 0 if run(options, target, peers) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

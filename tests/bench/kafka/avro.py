"""CPU per record with values in AVRO beside that with JSON: Millstream, Kafka Streams and Flink SQL
on one broker, in one run.

    python -m tests.bench.kafka.avro --peers streams,flink [--events N] [--only W1,W3,W6]

Millstream and Kafka Streams read and write Avro with the ids of a registry, Flink without, because
its format that has them cannot be had. Sinks are not checked here: formats have their own tests.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.bench.kafka.cluster import Cluster
from tests.bench.kafka.contenders import AVRO, PEERS, RAW, Race, built, built_for_avro
from tests.bench.kafka.load import DEFAULT_PARTITIONS, load, load_in_avro
from tests.bench.kafka.watch import measured
from tests.bench.workloads import WORKLOADS, Workload
from tests.kafka.run import cluster, tool

COMMIT_MS = 1000


def race_of(contender: str, workload: Workload, registry: str) -> Race:
    """A race in JSON, or in AVRO if there is a registry."""
    suffix = "" if not registry else RAW if contender == "flink" else AVRO
    name = f"{contender}-{workload.name}-{time.monotonic_ns()}"
    return Race(
        *(contender, workload, False, COMMIT_MS, DEFAULT_PARTITIONS, name, f"bid{suffix}"),
        suffix=suffix,
        registry=registry,
    )


def compare(target: Cluster, workload: Workload, peers: list[str], built: Path, url: str) -> None:
    """Print the figures of one workload."""
    for contender in ("millstream", *peers):
        cpu, rate = {}, {}
        for form, registry in (("JSON", ""), ("AVRO", url)):
            race = race_of(contender, workload, registry)
            found = measured(race, target, built, "compiled")
            cpu[form], rate[form] = found["cpu"], found["rate"] / 1e3
            target.delete((race.name, f"_millstream.{race.name}."))
        print(
            f"| {workload.name} | {contender} | {cpu['JSON']:.2f} | {cpu['AVRO']:.2f}"
            f" | {cpu['AVRO'] / cpu['JSON']:.2f} | {rate['JSON']:.0f} | {rate['AVRO']:.0f} |",
            flush=True,
        )


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--only", default="W1,W3,W6")
    parser.add_argument("--peers", default="none", help=f"none, or some of {','.join(PEERS)}")
    parser.add_argument("--sources", type=Path, default=Path("../shared/bench"))
    parser.add_argument("--built", type=Path, default=Path(".bench-peers"))
    options = parser.parse_args(arguments)
    wanted = [] if options.peers == "none" else options.peers.split(",")
    folder = options.built.resolve()
    peers = [peer for peer in built(wanted, options.sources, folder) if peer in wanted]
    if peers:
        in_avro = built_for_avro(options.sources, folder)
        peers = [peer for peer in peers if peer in in_avro]
    with cluster() as (servers, environment):
        pid = Path(environment["KAFKA_LOCAL_DATA"], "broker-1", "pid").read_text(encoding="utf-8")
        target, url = Cluster(servers, int(pid.split()[0])), tool(environment, "registry", "start")
        load(servers, options.events, DEFAULT_PARTITIONS)
        load_in_avro(servers, options.events, url)
        print("| W | contender | JSON, CPU-s/M | AVRO | ratio | JSON, k rec/s | AVRO |")
        print("|--|--|--:|--:|--:|--:|--:|", flush=True)
        for workload in WORKLOADS:
            if workload.name in options.only.split(","):
                compare(target, workload, peers, folder, url)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A row processor with a store beside Quix Streams and Bytewax: `make bench-python-peers`.

Each counts the records of each key of a topic with four partitions, and writes each new count to
another topic; at least once, in one process. The figures are records per second of CPU of the
process, from its start until all counts are on the broker, less the CPU of a run over few records.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.bench.kafka.measure import cpu_seconds, tree
from tests.kafka.run import cluster

HERE = Path(__file__).parent / "python"
CONTENDERS = {"millstream": "millstream_count.py", "quix": "quix.py", "bytewax": "bytewax_count.py"}
PARTITIONS, KEYS = 4, 4_000
FEW = 1_000
PATIENCE_SECONDS = 600.0


def feed(servers: str, topic: str, records: int) -> None:
    """Write the records."""
    made(servers, topic)
    chance, producer = random.Random(1), Producer({"bootstrap.servers": servers, "linger.ms": 20})
    for number in range(records):
        value = json.dumps({"BIDDER": number % 77, "PRICE": number}).encode()
        producer.produce(topic, value, str(chance.randrange(KEYS)).encode())
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()


def made(servers: str, topic: str) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()


def written(consumer: Consumer, topic: str) -> int:
    """The number of records of a topic, without transactions."""
    places = (TopicPartition(topic, partition) for partition in range(PARTITIONS))
    try:
        return sum(consumer.get_watermark_offsets(place)[1] for place in places)
    except KafkaException:
        return 0  # A new topic may not have its leaders yet.


def cost(servers: str, python: str, program: str, topic: str, records: int) -> float:
    """The CPU seconds that a contender takes for a topic."""
    out = f"{topic}-{Path(program).stem.replace('_', '-')}"
    made(servers, out)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "watch"})
    with tempfile.TemporaryDirectory() as folder:
        command = [python, str(HERE / program), servers, topic, out, folder]
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
        used, deadline = 0.0, time.monotonic() + PATIENCE_SECONDS
        try:
            while (found := written(consumer, out)) < records:
                used = max(used, cpu_seconds(tree(process.pid)))
                if process.poll() is not None or time.monotonic() > deadline:
                    time.sleep(1)
                    found = written(consumer, out)
                    if found < records:
                        raise SystemExit(f"{program}: {found} of {records} records")
                    break
                time.sleep(0.05)
            used = max(used, cpu_seconds(tree(process.pid)))
        finally:
            process.kill()
            process.wait()
            consumer.close()
    return used


def main() -> None:
    """Run each contender."""
    parser = argparse.ArgumentParser(prog="make bench-python-peers", description=__doc__)
    parser.add_argument(
        "--peers", required=True, help="the Python in which the peers are installed"
    )
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    best: dict[str, float] = {}
    with cluster() as (servers, _):
        for number in range(options.rounds):
            few, many = f"few{number}", f"many{number}"
            feed(servers, few, FEW)
            feed(servers, many, options.records)
            for name, program in CONTENDERS.items():
                python = sys.executable if name == "millstream" else options.peers
                start = cost(servers, python, program, few, FEW)
                used = cost(servers, python, program, many, options.records) - start
                rate = (options.records - FEW) / max(used, 0.01)
                best[name] = max(best.get(name, 0.0), rate)
                print(
                    f"{name:12} {rate / 1e3:7.0f} k records/CPU-s  (start {start:.1f} s)",
                    flush=True,
                )
    peer = max(best["quix"], best["bytewax"])
    print(f"Millstream / the better of the others: {best['millstream'] / peer:.1f}")


if __name__ == "__main__":
    main()

"""Milliseconds from a record's way to the broker until its result is with a read_committed reader.

One record under way at a time, with a rest of up to 50 ms between them; the first ones are not
counted.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.bench.kafka.cluster import Cluster
from tests.bench.kafka.contenders import Race
from tests.bench.kafka.watch import launch

WARM = 100
COUNTED = 200
LIMIT_SECONDS = 60.0


def latencies(race: Race, cluster: Cluster, built: Path, reader: str) -> str:
    """Median and tail of one contender."""
    for topic in (race.bids, race.sink):
        cluster.create(topic, race.partitions)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.servers,
            "group.id": race.name,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition(race.sink, part, 0) for part in range(race.partitions)])
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
        process = launch(race, cluster, Path(folder), built, reader)
        try:
            found = _measured(race, cluster.servers, consumer)
        finally:
            process.stop()
            consumer.close()
    cuts = statistics.quantiles(found, n=100)
    return f"median {statistics.median(found):.1f} | p90 {cuts[89]:.1f} | p99 {cuts[98]:.1f}"


def _measured(race: Race, servers: str, consumer: Consumer) -> list[float]:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    chance, found = random.Random(1), []
    for number in range(WARM + COUNTED):
        value = {
            "auction": number % 1000, "bidder": number % 77, "price": number, "channel": "c",
            "url": "u", "dateTime": int(time.time() * 1000), "extra": f"x{number}",
        }  # fmt: skip
        started = time.perf_counter()
        producer.produce(race.bids, json.dumps(value), partition=number % race.partitions)
        producer.flush()
        _await(consumer)
        found.append((time.perf_counter() - started) * 1000)
        time.sleep(chance.random() * (0.05 if number >= WARM else 0.005))
    return found[WARM:]


def _await(consumer: Consumer) -> None:
    limit = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < limit:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            return
    raise SystemExit(f"No result came within {LIMIT_SECONDS:.0f} seconds")

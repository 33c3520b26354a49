"""The producer of the input: numbered records, and a file of what the brokers have acknowledged.

    python -m tests.crash.kafka_input SERVERS TOPIC ACKS [--pause SECONDS]

It shares nothing with the engine. The record numbered N has key N % KEYS and the value {"N": N,
"G": one of GROUPS, "H": one of PARTS}; a line `N PARTITION OFFSET` of the file ACKS acknowledges
it. It ends with its standard input, after all its records are acknowledged.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

KEYS = 7
GROUPS = 5
PARTS = 3
_BURST = 25
PAUSE_SECONDS = 0.05


def record(number: int) -> tuple[bytes, bytes]:
    """Key and value; the columns G and H go through all pairs."""
    value = {"N": number, "G": f"g{number % GROUPS}", "H": f"h{number % PARTS}"}
    return b"%d" % (number % KEYS), json.dumps(value).encode()


def stubborn_producer(servers: str) -> Producer:
    """One that tries for ever, and writes everything once and in order."""
    return Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "acks": "all",
            "partitioner": "murmur2_random",
            "message.timeout.ms": 0,
            "linger.ms": 2,
            "reconnect.backoff.max.ms": 500,
            "log_level": 2,
        }
    )


def feed(servers: str, topic: str, acks: Path, pause: float) -> int:
    """Send until stopped; returns the number of records."""
    producer = stubborn_producer(servers)
    stopped = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        stopped.set()

    threading.Thread(target=listen, daemon=True).start()
    number = 0
    with acks.open("w") as file:

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise SystemExit(f"a record was refused: {error}")
            number_of = json.loads(message.value() or b"")["N"]
            file.write(f"{number_of} {message.partition()} {message.offset()}\n")

        while not stopped.wait(pause):
            for _ in range(_BURST):
                key, value = record(number)
                producer.produce(topic, value, key, on_delivery=delivered)
                number += 1
            producer.poll(0)
            file.flush()
        while producer.flush(60):
            pass
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("acks", type=Path)
    parser.add_argument("--pause", type=float, default=PAUSE_SECONDS)
    given = parser.parse_args()
    feed(given.servers, given.topic, given.acks, given.pause)


if __name__ == "__main__":
    main()

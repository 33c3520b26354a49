"""A member of a group that does nothing, for a test that stops it: `python -m tests.kafka.bystander
SERVERS GROUP TOPIC`. It prints `joined` when it has partitions of the topic; it reads none."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition


@dataclass
class Bystander:
    """Such a process."""

    process: subprocess.Popen[str]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)


@contextmanager
def bystander(servers: str, group: str, topic: str) -> Iterator[Bystander]:
    """One that has joined, and is killed in the end."""
    command = [sys.executable, "-m", "tests.kafka.bystander", servers, group, topic]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "joined\n"
        yield Bystander(process)
    finally:
        process.kill()
        process.wait()


def assigned(consumer: Consumer, given: list[TopicPartition]) -> None:
    consumer.incremental_assign(given)
    if given:
        consumer.pause(given)
        print("joined", flush=True)


def main() -> None:
    """Run until it is killed."""
    servers, group, topic = sys.argv[1:]
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 100,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic], on_assign=assigned)
    while True:
        consumer.poll(0.1)


if __name__ == "__main__":
    main()

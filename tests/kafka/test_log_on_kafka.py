"""The log on a real broker passes the suite of every log, and agrees with the others."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from millstream.log.batches import TABLES
from millstream.log.embedded import EmbeddedLog
from millstream.log.kafka.log import KafkaLog
from millstream.log.log import Appended, Log, Topic, Writer
from millstream.log.simulated import SimulatedLog
from millstream.model.batch import raw_batch
from millstream.model.errors import FencedError, MillstreamError, StatementError
from tests.unit.log.suite import CHECKS, Subject, numbers_of_table, table_of

SEQUENCES = int(os.environ.get("SEQUENCES", "20"))
OPERATIONS = 12


@pytest.fixture(scope="module")
def kafka(servers: str, kind: str) -> Iterator[KafkaLog]:
    """A log whose clients, like those of all others in this test, are of one kind."""
    log = KafkaLog(servers)
    yield log
    log.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_suite(kafka: KafkaLog, check: Callable[[Subject, Log[Any]], None], servers: str) -> None:
    for topic in kafka.topics():
        kafka.delete_topic(topic.name)
    for group in ("g", "h"):
        kafka.forget_group(group)
    config = {"cleanup.policy": "compact"}
    subject = Subject(
        "kafka", lambda _: KafkaLog(servers), table_of, numbers_of_table, gaps=True, config=config
    )
    log = subject.open(Path())
    check(subject, log)
    log.close()
    log.close()


def test_large_records(kafka: KafkaLog) -> None:
    kafka.delete_topic("large")
    kafka.create_topic(Topic("large", 1, config={"max.message.bytes": "10000000"}))
    values = [bytes([row]) * size for row, size in enumerate((8_000_000, 1, 8_000_000, 0, 999_999))]
    batch = raw_batch([(b"k", value, 1) for value in values])
    writer = kafka.writer("large")
    writer.append([Appended("large", 0, batch, len(values))])
    writer.close()
    found: list[bytes] = []
    while len(found) < len(values):
        found += kafka.read("large", 0, len(found), 10).batch["value"].to_pylist()
    assert found == values
    kafka.delete_topic("large")


@dataclass
class Played:
    """One log in a sequence, with its writers and what each operation showed."""

    log: Log[Any]
    writers: dict[str, list[Writer[Any]]]
    shown: list[object]


def contents(log: Log[Any], topic: str, partition: int) -> list[int]:
    found: list[int] = []
    offset = log.start_offset(topic, partition)
    while True:
        fetched = log.read(topic, partition, offset, 4)
        found += numbers_of_table(fetched.batch)
        offset = fetched.next_offset
        if fetched.end:
            return found


def play(played: Played, draw: random.Random, names: list[str], group: str) -> None:
    """One operation, drawn; all logs draw alike. For a fenced writer and a missing topic, logs
    differ in which error they report first."""
    kind = draw.choice(["create", "delete", "writer", "append", "transact", "transact", "forget"])
    name, identity = draw.choice(names), draw.choice(["v", "w"])
    topic_partitions = [
        (draw.choice(names), draw.randrange(3)) for _ in range(draw.randrange(1, 4))
    ]
    numbers = [draw.randrange(100) for _ in range(draw.randrange(1, 5))]
    positions = {topic_partition: draw.randrange(30) for topic_partition in topic_partitions}
    which = draw.random()
    writers = played.writers[identity]
    appended = [
        Appended(*topic_partition, table_of(numbers), len(numbers))
        for topic_partition in topic_partitions
    ]
    try:
        match kind:
            case "create":
                played.log.create_topic(Topic(name, 2))
            case "delete":
                played.log.delete_topic(name)
            case "writer":
                writers.append(played.log.writer(f"{group}-{identity}"))
            case "append" if writers:
                writers[int(which * len(writers))].append(appended)
            case "transact" if writers:
                writer = writers[int(which * len(writers))]
                played.shown.append(writer.transact(group, appended, positions))
            case "forget":
                played.log.forget_group(group)
    except (FencedError, StatementError):
        played.shown.append("refused")
    except MillstreamError as error:
        played.shown.append(type(error).__name__)
    played.shown.append(sorted(played.log.positions(group).items()))
    for topic in names:
        if played.log.topic(topic) is not None:
            played.shown.append([contents(played.log, topic, part) for part in range(2)])


@pytest.mark.timeout(900)
def test_random_sequences_agree(kafka: KafkaLog) -> None:
    for seed in range(SEQUENCES):
        names, group = [f"s{seed}-a", f"s{seed}-b"], f"group-{seed}"
        logs: list[Log[Any]] = [kafka, SimulatedLog(TABLES, markers=True)]
        logs.append(EmbeddedLog.open(":memory:", tail_bytes=0))
        shown = []
        for log in logs:
            played = Played(log, {"v": [], "w": []}, [])
            draw = random.Random(seed)
            for _ in range(OPERATIONS):
                play(played, draw, names, group)
            for writer in (*played.writers["v"], *played.writers["w"]):
                writer.close()
            for name in names:
                log.delete_topic(name)
            shown.append(played.shown)
        assert shown[0] == shown[1] == shown[2], f"seed {seed}"
        logs[2].close()

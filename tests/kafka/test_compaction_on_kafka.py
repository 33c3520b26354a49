"""The log in one file leaves the records that a broker leaves of a compacted topic."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from millstream.log.embedded import EmbeddedLog
from millstream.log.kafka.log import KafkaLog
from millstream.log.log import Appended, Log, Topic
from millstream.model.batch import raw_batch
from millstream.model.clock import now_ms
from tests.unit.log.test_compaction import Record

RATIO = "min.cleanable.dirty.ratio"
CONFIG = {"cleanup.policy": "compact", "segment.ms": "100", RATIO: "0"}
STEP_MS = 1000
"""Each append is in a segment of its own, but the last one."""


@pytest.fixture
def kafka(servers: str) -> Iterator[KafkaLog]:
    log = KafkaLog(servers)
    yield log
    log.close()


def left(log: Log[Any], topic: str) -> list[tuple[int, Record]]:
    """All records of a partition with their offsets."""
    position, end, found = log.start_offset(topic, 0), False, list[tuple[int, Record]]()
    while not end:
        read = log.read(topic, 0, position, 1000)
        batch = read.records()
        names = ("offset", "key", "value", "timestamp")
        columns = (batch[name].to_pylist() for name in names)
        found += [(row[0], row[1:]) for row in zip(*columns, strict=True)]
        position, end = read.next_offset, read.end
    return found


def left_anew(servers: str, topic: str) -> list[tuple[int, Record]]:
    """What a broker has now."""
    log = KafkaLog(servers)
    try:
        return left(log, topic)
    finally:
        log.close()


def set_ratio(servers: str, topic: str, ratio: str) -> None:
    entry = ConfigEntry(RATIO, ratio, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("tombstones", ["0", "86400000"])
def test_the_same_records_are_left(kafka: KafkaLog, servers: str, tombstones: str) -> None:
    """After a first compaction, and after one more, in which tombstones of the first leave."""
    draw, time = random.Random(7), now_ms() - 1000 * STEP_MS
    topic = Topic(
        f"compacted-{uuid.uuid4().hex[:8]}",
        1,
        config={**CONFIG, "delete.retention.ms": tombstones},
    )
    own = EmbeddedLog.open(":memory:", tail_bytes=0, compacting=False)
    for log in (kafka, own):
        log.create_topic(topic)
    counts = []
    for _ in range(2):
        # A compaction in between would be one more.
        set_ratio(servers, topic.name, "1")
        for _ in range(10):
            time += STEP_MS
            records: list[Record] = [
                (b"k%d" % draw.randrange(12), draw.choice([None, b"%d" % draw.randrange(99)]), time)
                for _ in range(draw.randint(1, 6))
            ]
            for log in (kafka, own):
                log.send([Appended(topic.name, 0, raw_batch(records), len(records))])
        set_ratio(servers, topic.name, "0")
        own.compact()
        wanted = left(own, topic.name)
        assert len(wanted) < own.end_offset(topic.name, 0)
        # The broker looks every few seconds, and a log keeps what it has fetched.
        while left_anew(servers, topic.name) != wanted:
            assert kafka.end_offset(topic.name, 0) == own.end_offset(topic.name, 0)
        counts.append(sum(value is None for _, (_, value, _) in wanted))
    assert all(counts)
    own.close()
    kafka.delete_topic(topic.name)

"""Records that other processes write to several partitions are taken in the order of time."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from millstream.log.kafka.log import KafkaLog
from millstream.log.log import Fetched, Reader, Topic
from tests.unit.log.suite import numbers_of_table


@pytest.fixture
def log(servers: str) -> Iterator[KafkaLog]:
    opened = KafkaLog(servers)
    yield opened
    opened.close()


@pytest.fixture
def topic(log: KafkaLog) -> Iterator[str]:
    name = f"order-{uuid.uuid4().hex[:8]}"
    log.create_topic(Topic(name, 2))
    yield name
    log.delete_topic(name)


def read_both(reader: Reader[Any], topic: str, offsets: list[int]) -> list[Fetched[Any]]:
    """One round; as a query does, it counts only if nothing of it is awaited."""
    reader.begin([(topic, partition) for partition in range(2)])
    return [reader.read(topic, partition, offsets[partition], 100) for partition in range(2)]


def first_round(log: KafkaLog, reader: Reader[Any], topic: str) -> list[Fetched[Any]]:
    while True:
        found = read_both(reader, topic, [0, 0])
        if not any(item.awaited for item in found):
            return found


def producer(servers: str, **settings: str) -> Producer:
    return Producer({"bootstrap.servers": servers, "linger.ms": 0, **settings})


@pytest.mark.timeout(300)
def test_an_open_transaction_holds_back_what_other_partitions_have(
    servers: str, log: KafkaLog, topic: str
) -> None:
    reader = log.reader()
    assert [item.count for item in first_round(log, reader, topic)] == [0, 0]
    slow = producer(servers, **{"transactional.id": topic})
    slow.init_transactions(10)
    slow.begin_transaction()
    slow.produce(topic, b"1", partition=1, timestamp=1000)
    slow.flush(10)
    quick = producer(servers)
    quick.produce(topic, b"2", partition=0, timestamp=2000)
    quick.flush(10)
    end = log.end_offset(topic, 0)
    while log.read(topic, 0, 0, 1).count == 0:
        pass
    rounds = [read_both(reader, topic, [0, 0]) for _ in range(20)]
    assert end == 1
    assert all(any(item.awaited for item in found) or not found[0].count for found in rounds)
    slow.commit_transaction(10)
    while not (found := first_round(log, reader, topic))[1].count:
        assert not found[0].count
    assert found[0].count == 1
    reader.close()


@pytest.mark.timeout(300)
def test_a_transaction_that_stays_open_is_not_waited_for_long(
    servers: str, log: KafkaLog, topic: str
) -> None:
    reader = log.reader()
    first_round(log, reader, topic)
    owner = producer(servers, **{"transactional.id": topic})
    owner.init_transactions(10)
    owner.begin_transaction()
    owner.produce(topic, b"1", partition=1)
    owner.flush(10)
    quick = producer(servers)
    quick.produce(topic, b"2", partition=0)
    quick.flush(10)
    while not (found := first_round(log, reader, topic))[0].count:
        pass
    assert [item.count for item in found] == [1, 0]
    assert found[1].end
    owner.abort_transaction(10)
    reader.close()


@pytest.mark.timeout(300)
def test_records_alternating_between_partitions_come_in_order(
    servers: str, log: KafkaLog, topic: str
) -> None:
    """Each record is acknowledged before the next one is sent: no round may hold a record and
    leave out one that was written before it. Of a partition that is not at its end more may come,
    so that what is behind its last record has to wait, as it does in a query."""
    reader = log.reader()
    first_round(log, reader, topic)
    other = producer(servers)
    offsets, seen = [0, 0], 0
    for number in range(400):
        other.produce(topic, str(number).encode(), partition=number % 2)
        other.flush(10)
        found = read_both(reader, topic, offsets)
        if any(item.awaited for item in found):
            continue
        last = min((values(item)[-1] for item in found if not item.end), default=number)
        taken = [[number for number in values(item) if number <= last] for item in found]
        assert sorted(itertools.chain(*taken)) == list(range(seen, seen + sum(map(len, taken))))
        offsets = [offset + len(own) for offset, own in zip(offsets, taken, strict=True)]
        seen += sum(map(len, taken))
    assert seen
    reader.close()


def values(fetched: Fetched[Any]) -> list[int]:
    return numbers_of_table(fetched.batch)

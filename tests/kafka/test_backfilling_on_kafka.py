"""Back-fill on Kafka: the result, the positions and the command are one transaction, and the
instance with the tasks continues from there."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import millstream
from millstream import InstanceSettings
from millstream.cluster.joining import hosted_partitions
from millstream.log.kafka.log import KafkaLog
from millstream.log.kafka.patience import alone
from tests.kafka.neighbour import neighbour
from tests.patience import PATIENCE_S, until

SHARING = InstanceSettings(session_timeout_ms=6_000)
PROPERTIES = {"auto.offset.reset": "earliest", "processing.guarantee": "exactly_once_v2"}
PARTITIONS = 4
KEYS = 10


@pytest.fixture
def service() -> str:
    return f"filled-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def db(servers: str, service: str) -> Iterator[millstream.Database]:
    with millstream.connect(
        kafka=servers, service_id=service, sharing=SHARING, properties=PROPERTIES
    ) as database:
        database.execute(
            "CREATE STREAM numbers (k STRING KEY, n INT) WITH "
            f"(kafka_topic='{service}.numbers', partitions={PARTITIONS}, value_format='JSON');"
        )
        yield database


def sums(service: str) -> str:
    return (
        f"CREATE TABLE sums WITH (kafka_topic='{service}.sums', backfill='duckdb') AS SELECT k, "
        f"COUNT(*) AS c, SUM(n) AS s FROM numbers GROUP BY k;"
    )


def insert(db: millstream.Database, first: int, end: int) -> None:
    for n in range(first, end):
        db.execute(f"INSERT INTO numbers VALUES ('k{n % KEYS}', {n});")


def changes(servers: str, topic: str) -> dict[str, list[tuple[int, int]]]:
    """Count and sum of each change of each key, as a reader of committed records finds them."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "independent",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: dict[str, list[tuple[int, int]]] = {}
    ended = 0
    while ended < PARTITIONS:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        if message.error():
            ended += 1
            continue
        row = json.loads(message.value())
        found.setdefault(message.key().decode(), []).append((row["C"], row["S"]))
    consumer.close()
    return found


def prefixes(records: int) -> dict[str, list[tuple[int, int]]]:
    """Count and sum after each of the numbers below `records`, by key."""
    groups = {f"k{key}": range(key, records, KEYS) for key in range(KEYS)}
    return {key: list(enumerate(accumulate(group), start=1)) for key, group in groups.items()}


def answers(db: millstream.Database, records: int) -> bool:
    """Whether the table is what so many records make it."""
    try:
        rows = db.execute("SELECT k, c, s FROM sums;")
    except millstream.UnavailableError:
        return False
    return {row[0]: (row[1], row[2]) for row in rows} == {
        key: each[-1] for key, each in prefixes(records).items()
    }


@pytest.mark.timeout(300)
def test_several_instances_go_on_from_it(
    db: millstream.Database, servers: str, service: str
) -> None:
    insert(db, 0, 40)
    with neighbour(servers, service):
        db.execute(sums(service))
        (query,) = db.engine.catalog.queries
        until(lambda: len(hosted_partitions(db.engine.cluster, query).active) == PARTITIONS // 2)
        until(lambda: answers(db, 40))
        assert changes(servers, f"{service}.sums") == prefixes(40)
        insert(db, 40, 60)
        until(lambda: answers(db, 60))
    assert changes(servers, f"{service}.sums") == prefixes(60)


@pytest.mark.timeout(300)
def test_it_reads_what_is_committed(db: millstream.Database, servers: str, service: str) -> None:
    """Records behind one of an open transaction are not the past yet."""
    insert(db, 0, 20)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"{service}.other"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(PARTITIONS):
        producer.produce(f"{service}.numbers", b'{"N":1000}', b"k0", number)
    producer.flush(30)
    db.execute(sums(service))
    until(lambda: answers(db, 20))
    producer.abort_transaction(30)
    insert(db, 20, 30)
    until(lambda: answers(db, 30))


def replacing(service: str, factor: int) -> str:
    return (
        f"CREATE OR REPLACE TABLE sums WITH (kafka_topic='{service}.sums', backfill='duckdb') AS"
        f" SELECT k, COUNT(*) * {factor} AS c, SUM(n) AS s FROM numbers GROUP BY k;"
    )


def times(servers: str, topic: str, factor: int) -> dict[str, tuple[int, int]]:
    """The last count of each key, which has to be a multiple, divided, and the sum."""
    last = {key: each[-1] for key, each in changes(servers, topic).items()}
    assert all(count % factor == 0 for count, _ in last.values())
    return {key: (count // factor, total) for key, (count, total) in last.items()}


def final(records: int) -> dict[str, tuple[int, int]]:
    return {key: each[-1] for key, each in prefixes(records).items()}


@contextmanager
def halved(db: millstream.Database, servers: str, service: str) -> Iterator[tuple[Any, str]]:
    """The process of another instance, which has half of the tasks of a query over 40 numbers; its
    id."""
    insert(db, 0, 40)
    db.execute(sums(service))
    (query,) = db.engine.catalog.queries
    with neighbour(servers, service) as other:
        until(lambda: len(hosted_partitions(db.engine.cluster, query).active) == PARTITIONS // 2)
        yield other, query


@pytest.mark.timeout(300)
def test_a_table_is_made_anew_while_others_work_on_it(
    db: millstream.Database, servers: str, service: str
) -> None:
    with halved(db, servers, service) as (_, old):
        insert(db, 40, 50)
        db.execute(replacing(service, 1000))
        assert times(servers, f"{service}.sums", 1000) == final(50)
        (new,) = db.engine.catalog.queries
        assert new != old
        until(lambda: len(hosted_partitions(db.engine.cluster, new).active) == PARTITIONS // 2)
        insert(db, 50, 70)
        until(lambda: times(servers, f"{service}.sums", 1000) == final(70))
        db.execute(replacing(service, 7))
        assert times(servers, f"{service}.sums", 7) == final(70)
    until(
        lambda: not [topic for topic in db.engine.log.topics() if f"{service}.{old}-" in topic.name]
    )


@pytest.mark.timeout(300)
def test_a_suspended_process_does_not_overwrite_it(
    db: millstream.Database, servers: str, service: str
) -> None:
    with halved(db, servers, service) as (other, _):
        other.send_signal(signal.SIGSTOP)
        insert(db, 40, 50)
        db.execute(replacing(service, 1000))
        assert times(servers, f"{service}.sums", 1000) == final(50)
        other.send_signal(signal.SIGCONT)
        insert(db, 50, 70)
        (new,) = db.engine.catalog.queries
        until(lambda: len(hosted_partitions(db.engine.cluster, new).active) == PARTITIONS // 2)
        until(lambda: times(servers, f"{service}.sums", 1000) == final(70))


def test_a_large_transaction_is_given_its_time(servers: str) -> None:
    log = KafkaLog(servers, namespace=f"large-{uuid.uuid4().hex[:8]}.")
    log.writer("large", size=10**12).close()
    log.close()
    assert alone().transaction_seconds < alone(10**8).transaction_seconds
    assert alone(10**9).transaction_seconds == alone(10**12).transaction_seconds

"""Queries over history on Kafka, where transactions use up offsets: here, and on Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

import millstream
from millstream.model.errors import StatementError
from millstream.model.settings import EngineSettings
from tests.spark.java import QUICK, missing

PROPERTIES = {"auto.offset.reset": "earliest", "processing.guarantee": "exactly_once_v2"}
RECORDS = 24


@pytest.fixture(scope="module")
def db(servers: str) -> Iterator[millstream.Database]:
    """With records of a second each, an aborted transaction among them, and a table over them."""
    service = f"past-{uuid.uuid4().hex[:8]}"
    settings = EngineSettings(spark_master="local[2]", spark_options=QUICK)
    with millstream.connect(
        kafka=servers, service_id=service, properties=PROPERTIES, settings=settings
    ) as made:
        made.execute(
            "CREATE STREAM numbers (k STRING KEY, n INT) WITH "
            f"(kafka_topic='{service}.numbers', partitions=2, value_format='JSON');"
            f"CREATE TABLE sums WITH (kafka_topic='{service}.sums') AS "
            "SELECT k, COUNT(*) AS c, SUM(n) AS s FROM numbers GROUP BY k;"
        )
        for n in range(RECORDS):
            if n == RECORDS // 2:
                abort(servers, f"{service}.numbers")
            made.execute(
                f"INSERT INTO numbers (ROWTIME, k, n) VALUES ({n * 1000}, 'k{n % 5}', {n});"
            )
        made.wait()
        yield made


def abort(servers: str, topic: str) -> None:
    """Records that no reader may see."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": f"{topic}.aborted"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for partition in range(2):
        producer.produce(topic, b'{"N":1000}', b"k0", partition, timestamp=1)
    producer.flush(60)
    producer.abort_transaction(60)


@pytest.fixture(params=["duckdb", "spark"])
def asked(db: millstream.Database, request: pytest.FixtureRequest) -> millstream.Database:
    """The database, whose queries over history run there."""
    if request.param == "spark" and (why := missing()):
        pytest.skip(why)
    db.execute(f"SET 'millstream.history.backend' = '{request.param}';")
    return db


def test_a_stream_in_a_range(asked: millstream.Database) -> None:
    all_of_it = list(
        asked.execute("SELECT n, ROWPARTITION, ROWOFFSET FROM numbers BETWEEN OFFSETS 0 AND 999;")
    )
    assert sorted(n for n, _, _ in all_of_it) == list(range(RECORDS))
    offsets = sorted(offset for _, _, offset in all_of_it)
    first, last = offsets[3], offsets[-4]
    found = asked.execute(f"SELECT n FROM numbers BETWEEN OFFSETS {first} AND {last};").fetchall()
    assert sorted(found) == sorted((n,) for n, _, at in all_of_it if first <= at <= last)
    assert 0 < len(found) < RECORDS
    found = asked.execute("SELECT n FROM numbers FROM TIMESTAMP 3000 TO 9000 ORDER BY n;")
    assert found.fetchall() == [(n,) for n in range(3, 9)]


def test_an_aggregate_over_what_was(asked: millstream.Database) -> None:
    found = asked.execute(
        "SELECT k, COUNT(*) AS c, SUM(n) AS s FROM numbers AS OF TIMESTAMP 11000 GROUP BY k "
        "ORDER BY k;"
    )
    groups = {f"k{key}": range(key, 12, 5) for key in range(5)}
    assert found.fetchall() == [(k, len(group), sum(group)) for k, group in groups.items()]


def test_a_table_as_it_stands_and_as_it_may_have_stood(asked: millstream.Database) -> None:
    """Offsets of transactions look like compacted records: then it is refused."""
    now = asked.execute("SELECT k, c, s FROM sums AS OF TIMESTAMP 99999 ORDER BY k;").fetchall()
    groups = {f"k{key}": range(key, RECORDS, 5) for key in range(5)}
    assert now == [(k, len(group), sum(group)) for k, group in groups.items()]
    with pytest.raises(StatementError, match="compact") as refused:
        asked.execute("SELECT k, c, s FROM sums AS OF TIMESTAMP 4000;").fetchall()
    assert refused.value.code == "E-HISTORY-COMPACTED"

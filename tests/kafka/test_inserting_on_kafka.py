"""`Database.insert` on Kafka: the records are those of a file, and none arrives of invalid rows."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

import millstream
from millstream import Database, MillstreamError
from millstream.statements import bulk_inserts

PARTITIONS = 3
ROWS = [
    {"k": n % 11, "name": f"n{n}", "amount": n / 4, "ROWTIME": 1_700_000_000_000 + n}
    for n in range(1000)
]


def filled(db: Database, topic: str) -> list[Any]:
    """Insert the rows in every way, and return the records of each partition."""
    db.execute(
        f"CREATE STREAM s (k INT KEY, name STRING, amount DOUBLE) "
        f"WITH (KAFKA_TOPIC='{topic}', PARTITIONS={PARTITIONS}, VALUE_FORMAT='JSON');"
    )
    with pytest.raises(MillstreamError, match="row 1001 "):
        db.insert("s", [*ROWS, {"k": "x"}])
    assert db.insert("s", ROWS) == len(ROWS)
    tuples = [tuple(row.values()) for row in ROWS]
    db.executemany("INSERT INTO s (k, name, amount, ROWTIME) VALUES (?, ?, ?, ?)", tuples)
    with db.append("s", batch_rows=300) as appender:
        for row in ROWS:
            appender.add(row)
    found = []
    for partition in range(PARTITIONS):
        offset, records = 0, []
        end = db.engine.log.end_offset(topic, partition)
        while offset < end:
            fetched = db.engine.log.read(topic, partition, offset, 10_000)
            records += fetched.batch.select(["timestamp", "key", "value"]).to_pylist()
            offset = fetched.next_offset
        found.append(records)
    return found


def test_the_records_are_those_of_a_file(
    servers: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_inserts, "BATCH_ROWS", 100)
    name = f"inserted{uuid.uuid4().hex[:8]}"
    with millstream.connect() as file:
        expected = filled(file, name)
    with millstream.connect(kafka=servers, service_id=name) as kafka:
        assert filled(kafka, name) == expected
    assert sum(map(len, expected)) == 3 * len(ROWS)

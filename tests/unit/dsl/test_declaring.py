"""`to_table` and `to_stream`: the topic of one declared as the other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

import millstream
from millstream import ConflictError, Database, StatementError, col

SQL = """
CREATE STREAM moves (id STRING KEY, town STRING, `when` TIMESTAMP,
    h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS)
  WITH (KAFKA_TOPIC='moves', PARTITIONS=2, VALUE_FORMAT='JSON', TIMESTAMP='`when`');
CREATE STREAM orders (id STRING KEY) WITH (KAFKA_TOPIC='o', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE STREAM lines (`id` INT KEY, a STRING, b INT)
  WITH (KAFKA_TOPIC='lines', PARTITIONS=1, VALUE_FORMAT='DELIMITED', VALUE_DELIMITER='SPACE');
CREATE STREAM single (id INT KEY, a STRING)
  WITH (KAFKA_TOPIC='single', PARTITIONS=1, VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=false);
CREATE STREAM keyless (a STRING) WITH (KAFKA_TOPIC='keyless', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE counts AS SELECT town, COUNT(*) AS n FROM moves GROUP BY town;
CREATE TABLE hourly AS SELECT town, COUNT(*) AS n FROM moves WINDOW TUMBLING (SIZE 1 HOUR)
  GROUP BY town;
"""


@pytest.fixture
def db() -> Iterator[Database]:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as opened:
        opened.execute(SQL)
        yield opened


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return db.execute(sql).fetchall()  # type: ignore[union-attr]


def test_the_latest_record_of_each_key(db: Database) -> None:
    where = db.stream("moves").to_table("where_now")
    chain = db.stream("orders").join(where, on=col("orders.id") == col("where_now.id"))
    chain.select(col("orders.id"), "town").to("placed")
    for town, second in (("ulm", 1), ("bern", 2)):
        row = {"id": "a", "town": town, "when": dt.datetime(2026, 1, 1, 0, 0, second)}
        db.insert("moves", [row])
    db.wait()
    db.insert("orders", [{"id": "a"}, {"id": "b"}])
    db.wait()
    assert rows(db, "SELECT town FROM placed") == [("bern",)]


@pytest.mark.parametrize("name", ["moves", "lines", "single"])
def test_it_has_the_columns_and_formats_of_the_stream(db: Database, name: str) -> None:
    db.stream(name).to_table("made")
    stream, table = (db.engine.catalog.source(each) for each in (name.upper(), "MADE"))
    kept = [c for c in stream.schema.columns if c.name != "H"]
    assert list(table.schema.columns) == kept
    assert (table.topic, table.key_format, table.value_format, table.timestamp, table.window) == (
        *(stream.topic, stream.key_format, stream.value_format, stream.timestamp, stream.window),
    )


def test_the_changes_of_a_table_are_a_stream(db: Database) -> None:
    db.table("counts").to_stream("changes")
    db.insert(
        "moves", [{"id": key, "town": "ulm", "when": dt.datetime(2026, 1, 1)} for key in "abc"]
    )
    db.wait()
    assert rows(db, "SELECT town, n FROM changes") == [("ulm", 1), ("ulm", 2), ("ulm", 3)]


def test_windows_stay_windows(db: Database) -> None:
    db.table("hourly").to_stream("changes")
    made, table = (db.engine.catalog.source(each) for each in ("CHANGES", "HOURLY"))
    assert made.window == table.window is not None


def test_what_is_no_topic_as_it_is_is_refused(db: Database) -> None:
    with pytest.raises(StatementError, match="other steps before it"):
        db.stream("moves").filter(col("town") == "ulm").to_table("made")
    with pytest.raises(StatementError, match="other steps before it"):
        db.table("counts").filter(col("n") > 1).to_stream("made")
    with pytest.raises(StatementError, match="no key"):
        db.stream("keyless").to_table("made")
    with pytest.raises(ConflictError, match="same name"):
        db.stream("moves").to_table("counts")

"""ASSERT: a true assertion passes, a false one fails with the actual state."""

from __future__ import annotations

import pytest

from millstream import Database, Done, MillstreamError

ITEMS = (
    "CREATE TABLE items (id INT PRIMARY KEY, name STRING, price DECIMAL(5, 2)) "
    "WITH (KAFKA_TOPIC='items', PARTITIONS=1, VALUE_FORMAT='JSON');"
)


def holds(db: Database, sql: str) -> None:
    assert isinstance(db.execute(sql), Done)


def fails(db: Database, sql: str, *words: str) -> None:
    with pytest.raises(MillstreamError) as caught:
        db.execute(sql)
    assert caught.value.code == "E-ASSERT"
    for word in words:
        assert word in str(caught.value)


def test_values_are_read_one_after_another(db: Database) -> None:
    db.execute(ITEMS)
    db.execute("INSERT INTO items (ROWTIME, id, name, price) VALUES (7, 1, 'cup', 2.5);")
    db.execute("INSERT INTO items VALUES (2, 'mug', 3);")
    fails(db, "ASSERT VALUES items (id, name) VALUES (2, 'mug');", "'cup'")
    holds(db, "ASSERT VALUES items (ROWTIME, id, price) VALUES (7, 1, 2.50);")
    fails(db, "ASSERT NULL VALUES items (id) KEY (2);", "without a value")
    holds(db, "ASSERT VALUES items VALUES (2, 'mug', 3.00);")
    fails(db, "ASSERT VALUES items (id) VALUES (2);", "no further record")


def test_values_wait_for_the_queries(db: Database) -> None:
    db.execute(ITEMS)
    db.execute("CREATE TABLE dear AS SELECT id, name FROM items WHERE price > 5;")
    db.execute("INSERT INTO items VALUES (1, 'cup', 9); INSERT INTO items VALUES (1, 'cup', 1);")
    holds(db, "ASSERT VALUES dear (id, name) VALUES (1, 'cup');")
    holds(db, "ASSERT NULL VALUES dear (id) KEY (1);")


def test_sources(db: Database) -> None:
    db.execute(ITEMS)
    columns = "(id INT PRIMARY KEY, name STRING, price DECIMAL(5, 2))"
    holds(db, f"ASSERT TABLE items {columns} WITH (KAFKA_TOPIC='items', VALUE_FORMAT='JSON');")
    holds(db, "ASSERT TABLE items WITH (KEY_FORMAT='KAFKA');")
    fails(db, "ASSERT STREAM items;", "is a TABLE")
    fails(db, "ASSERT TABLE items (id INT PRIMARY KEY, name STRING);", "columns", "`PRICE`")
    fails(db, f"ASSERT TABLE items {columns.replace('INT', 'BIGINT')};", "BIGINT")
    fails(db, "ASSERT TABLE items WITH (VALUE_FORMAT='DELIMITED');", "value format JSON")


def test_topics_are_waited_for(db: Database) -> None:
    db.execute(ITEMS)
    holds(db, "ASSERT TOPIC items WITH (PARTITIONS=1, REPLICAS=1);")
    holds(db, "ASSERT NOT EXISTS TOPIC others;")
    fails(db, "ASSERT TOPIC items WITH (PARTITIONS=2) TIMEOUT 0 SECONDS;", "PARTITIONS 1")
    fails(db, "ASSERT TOPIC others TIMEOUT 100 MILLISECONDS;", "does not exist")

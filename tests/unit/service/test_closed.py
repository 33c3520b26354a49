"""What a closed database answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import millstream
from millstream.model.errors import UnavailableError

SOURCE = """
CREATE STREAM s (k STRING KEY, v BIGINT)
  WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
"""
STATEMENTS = (
    "INSERT INTO s (k, v) VALUES ('a', 1);",
    "SELECT * FROM s;",
    "SELECT * FROM s EMIT CHANGES;",
    "SHOW STREAMS;",
    "DESCRIBE s;",
    "EXPLAIN SELECT * FROM s EMIT CHANGES;",
    "PRINT 's';",
    "CREATE STREAM t AS SELECT * FROM s;",
    "DROP STREAM s;",
    "SET 'auto.offset.reset' = 'earliest';",
)
CALLS: dict[str, Callable[[millstream.Database], object]] = {
    "each": lambda db: list(db.each("SHOW STREAMS;")),
    "executemany": lambda db: db.executemany("INSERT INTO s (k, v) VALUES (?, ?)", [("a", 1)]),
    "insert": lambda db: db.insert("s", [{"k": "a"}]),
    "append": lambda db: db.append("s"),
    "stream": lambda db: db.stream("s").to("t"),
}


@pytest.fixture
def closed() -> millstream.Database:
    database = millstream.connect()
    database.execute(SOURCE)
    database.close()
    return database


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_are_refused(closed: millstream.Database, statement: str) -> None:
    with pytest.raises(UnavailableError, match=r"^The database is closed") as refused:
        closed.execute(statement)
    assert refused.value.code == "E-CLOSED"


@pytest.mark.parametrize("name", CALLS)
def test_methods_are_refused(closed: millstream.Database, name: str) -> None:
    with pytest.raises(UnavailableError, match=r"^The database is closed"):
        CALLS[name](closed)


def test_what_it_held_can_be_read_still(closed: millstream.Database) -> None:
    assert not closed.metrics().running
    assert closed.processing_log().num_rows == 0
    closed.close()

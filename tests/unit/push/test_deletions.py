"""Push queries over tables of every kind: a deletion has only its key, and is marked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from millstream import Database, Deletion, Row, Stream
from millstream.log.log import Appended
from millstream.model.batch import DIFF, raw_batch
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.execution import open_engine

TABLES = """
CREATE TABLE t (id INT PRIMARY KEY, v STRING, l ARRAY<INT>, st STRUCT<a INT>)
    WITH (KAFKA_TOPIC='t', FORMAT='JSON', PARTITIONS=1);
CREATE TABLE u (id INT PRIMARY KEY, w INT) WITH (KAFKA_TOPIC='u', FORMAT='JSON', PARTITIONS=1);
CREATE STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON', PARTITIONS=1);
"""
SESSIONS = "FROM s WINDOW SESSION (10 SECONDS) GROUP BY k EMIT CHANGES;"
A = b'{"V":"a","L":[1,2],"ST":{"A":7}}'
B = b'{"V":"b","L":null,"ST":null}'


def put(db: Database, topic: str, *records: tuple[bytes, bytes | None, int]) -> None:
    writer = db.engine.log.writer("w")
    writer.append([Appended(topic, 0, raw_batch(records), len(records), 100)])
    writer.close()


def clicks(*entries: tuple[int, int]) -> list[tuple[bytes, bytes | None, int]]:
    return [(b'"x"', b'{"N":%d}' % n, time) for time, n in entries]


@pytest.fixture
def still() -> Iterator[Database]:
    """A database without threads: a push query runs while its rows are requested, to the end."""
    session = Session()
    session.set("auto.offset.reset", "earliest")
    session.set("cache.max.bytes.buffering", "0")
    database = Database(open_engine(":memory:", EngineSettings(), lambda: 1), session)
    database.execute(TABLES)
    yield database
    database.close()


def started(db: Database, sql: str) -> Stream:
    stream = db.execute(sql)
    assert isinstance(stream, Stream)
    return stream


def told(stream: Stream) -> list[tuple[tuple[Any, ...], bool]]:
    """All rows, each with whether it is a deletion."""
    rows = list(stream)
    assert all(type(row) in (Row, Deletion) for row in rows)
    return [(tuple(row), row.deleted) for row in rows]


CASES = {
    "records without a value": (
        "SELECT * FROM t EMIT CHANGES;",
        {"t": [(b"1", A, 1), (b"1", None, 2)]},
        [((1, "a", [1, 2], {"A": 7}), False), ((1, None, None, None), True)],
    ),
    "the key under another name, and a copy of it": (
        "SELECT v, id AS key, AS_VALUE(id) AS copy FROM t EMIT CHANGES;",
        {"t": [(b"1", A, 1), (b"1", None, 2)]},
        [(("a", 1, 1), False), ((None, 1, None), True)],
    ),
    "no key among the columns": (
        "SELECT v FROM t EMIT CHANGES;",
        {"t": [(b"1", A, 1), (b"1", None, 2)]},
        [(("a",), False), ((None,), True)],
    ),
    "a row that no longer meets WHERE": (
        "SELECT id, v, st FROM t WHERE v = 'a' EMIT CHANGES;",
        {"t": [(b"1", A, 1), (b"1", B, 2)]},
        [((1, "a", {"A": 7}), False), ((1, None, None), True)],
    ),
    "a group that no longer meets HAVING": (
        "SELECT k, SUM(n) AS total FROM s GROUP BY k HAVING SUM(n) > 0 EMIT CHANGES;",
        {"s": clicks((1, 5), (2, -7))},
        [(("x", 5), False), (("x", None), True)],
    ),
    "a join whose other side goes": (
        "SELECT t.id, v, w FROM t JOIN u ON t.id = u.id EMIT CHANGES;",
        {"t": [(b"1", A, 1)], "u": [(b"1", b'{"W":4}', 2), (b"1", None, 3)]},
        [((1, "a", 4), False), ((1, None, None), True)],
    ),
    "sessions that merge": (
        f"SELECT k, WINDOWSTART, WINDOWEND, COUNT(*) AS n {SESSIONS}",
        {"s": clicks((1_000, 1), (15_000, 1), (8_000, 1))},
        [
            (("x", 1_000, 1_000, 1), False),
            (("x", 15_000, 15_000, 1), False),
            (("x", 1_000, 1_000, None), True),
            (("x", 15_000, 15_000, None), True),
            (("x", 1_000, 15_000, 3), False),
        ],
    ),
    "bounds under other names are values": (
        f"SELECT k, WINDOWSTART AS begins, COUNT(*) AS n {SESSIONS}",
        {"s": clicks((1_000, 1), (2_000, 1))},
        [(("x", 1_000, 1), False), (("x", None, None), True), (("x", 1_000, 2), False)],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("apart", [False, True], ids=["one batch", "a batch for each record"])
def test_deletions_have_their_key_alone(still: Database, name: str, apart: bool) -> None:
    sql, records, expected = CASES[name]
    stream = started(still, sql)
    for topic, rows in records.items():
        for piece in [[row] for row in rows] if apart else [rows]:
            put(still, topic, *piece)
            if apart:
                still.engine.driver.run_until_idle()
    assert told(stream) == expected


def test_a_stream_has_no_deletions(still: Database) -> None:
    stream = started(still, "SELECT k, n FROM s EMIT CHANGES;")
    put(still, "s", *clicks((1, 5)), (b'"x"', None, 2), *clicks((3, 6)))
    assert told(stream) == [(("x", 5), False), (("x", 6), False)]


def test_a_windowed_table(still: Database) -> None:
    still.execute(f"CREATE TABLE visits AS SELECT k, COUNT(*) AS n, MAX(n) AS top {SESSIONS}")
    put(still, "s", *clicks((1_000, 4), (15_000, 5), (8_000, 6)))
    still.engine.driver.run_until_idle()
    assert told(started(still, "SELECT * FROM visits EMIT CHANGES;"))[2:] == [
        (("x", 1_000, 1_000, None, None), True),
        (("x", 15_000, 15_000, None, None), True),
        (("x", 1_000, 15_000, 3, 6), False),
    ]


def test_arrow_has_deletions_by_a_column_or_not_at_all(still: Database) -> None:
    sql = "SELECT id, v FROM t EMIT CHANGES;"
    changes, batches = started(still, sql), started(still, sql)
    put(still, "t", (b"1", A, 1), (b"1", None, 2), (b"2", A, 3))
    rows = pa.concat_tables(changes.changes()).to_pylist()
    assert [(row["ID"], row["V"], row[DIFF] < 1) for row in rows] == [
        (1, "a", False),
        (1, None, True),
        (2, "a", False),
    ]
    assert pa.concat_tables(batches.batches()).to_pylist() == [
        {"ID": 1, "V": "a"},
        {"ID": 2, "V": "a"},
    ]

"""Push queries with a cache: one change for each key and commit, as a persistent query writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from millstream import Database, Stream
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.execution import open_engine

SOURCES = """
CREATE STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON', PARTITIONS=2);
CREATE TABLE t (k STRING PRIMARY KEY, n INT) WITH (KAFKA_TOPIC='t', FORMAT='JSON', PARTITIONS=1);
CREATE TABLE u (k STRING PRIMARY KEY, m INT) WITH (KAFKA_TOPIC='u', FORMAT='JSON', PARTITIONS=1);
"""
INTERVAL_MS = 1_000
Record = tuple[str, int | None, int]


class Stepped:
    """A database that the test steps, with injected time."""

    def __init__(self, **properties: str) -> None:
        session = Session()
        for name, value in properties.items():
            session.set(name.replace("_", "."), value)
        session.set("auto.offset.reset", "earliest")
        self.db = Database(open_engine(":memory:", EngineSettings(), lambda: 1), session)
        self.db.execute(SOURCES)
        self.now = 0

    def put(self, topic: str, records: Sequence[Record]) -> None:
        """Append records to partition 0, and process them without a commit that is not due."""
        field = "M" if topic == "u" else "N"
        raw = [
            (f'"{k}"'.encode(), None if n is None else b'{"%b":%d}' % (field.encode(), n), time)
            for k, n, time in records
        ]
        writer = self.db.engine.log.writer("w")
        writer.append([Appended(topic, 0, raw_batch(raw), len(raw), 100)])
        writer.close()
        self.settle()

    def settle(self) -> None:
        """Step until nothing is left to do at this time."""
        while self.db.engine.runtime.step(self.now).progress:
            pass

    def commit(self, after_ms: int = INTERVAL_MS) -> None:
        """Let time pass."""
        self.now += after_ms
        self.settle()

    def push(self, sql: str) -> Stream:
        stream = self.db.execute(sql)
        assert isinstance(stream, Stream)
        self.settle()
        return stream


@pytest.fixture
def cached() -> Iterator[Stepped]:
    stepped = Stepped(cache_max_bytes_buffering="1000000", commit_interval_ms=str(INTERVAL_MS))
    yield stepped
    stepped.db.close()


def waiting(stream: Stream) -> list[tuple[Any, ...]]:
    """The rows received, with `True` after deletions."""
    found = []
    while not stream.buffer.empty():
        change = stream.buffer.get_nowait()
        assert change is not None and not isinstance(change, Exception)
        gone = (
            [diff < 1 for diff in change.rows["$diff"].to_pylist()]
            if ("$diff" in change.rows.column_names)
            else [False] * change.rows.num_rows
        )
        columns = [
            c.to_pylist()
            for n, c in zip(change.rows.column_names, change.rows.columns, strict=True)
            if n != "$diff"
        ]
        assert len(columns) == len(stream.columns)
        rows = list(zip(*columns, strict=True))
        found += [(*row, True) if g else row for row, g in zip(rows, gone, strict=True)]
    return found


RECORDS: list[tuple[str, list[Record]]] = [
    ("s", [("a", 1, 1), ("b", 5, 2), ("a", 2, 3)]),
    ("t", [("x", 1, 1), ("y", 2, 2)]),
    ("u", [("x", 10, 3)]),
    ("s", [("a", 4, 4), ("b", -9, 5), ("c", 7, 6)]),
    ("t", [("x", 3, 4), ("y", None, 5), ("z", 1, 6)]),
    ("u", [("x", 20, 7), ("y", 1, 8)]),
]
QUERIES = [
    "SELECT k, COUNT(*) AS n, SUM(n) AS total FROM s GROUP BY k EMIT CHANGES;",
    "SELECT k, SUM(n) AS total FROM s GROUP BY k HAVING SUM(n) > 0 EMIT CHANGES;",
    "SELECT n, COUNT(*) AS c FROM s GROUP BY n EMIT CHANGES;",
    "SELECT k, n FROM t EMIT CHANGES;",
    "SELECT k, n FROM t WHERE n < 3 EMIT CHANGES;",
    "SELECT t.k AS k, n, m FROM t JOIN u ON t.k = u.k EMIT CHANGES;",
    "SELECT t.k AS k, n, m FROM t LEFT JOIN u ON t.k = u.k EMIT CHANGES;",
    "SELECT k, n + 1 AS n FROM s EMIT CHANGES;",
]


def written(db: Database, topic: str) -> list[tuple[Any, ...]]:
    """What a persistent query has written: key and values, or key and True for a tombstone."""
    found: list[tuple[Any, ...]] = []
    for partition in range(db.engine.log.topic(topic).partitions):  # type: ignore[union-attr]
        rows = db.engine.log.read(topic, partition, 0, 1_000).batch
        for key, value in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True):
            rest = (True,) if value is None else tuple(json.loads(value).values())
            found.append((json.loads(key), *rest))
    return sorted(found, key=repr)


def pushed(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(((row[0], True) if row[-1] is True else row for row in rows), key=repr)


@pytest.mark.parametrize("cache", ["0", "1000000"])
@pytest.mark.parametrize("sql", QUERIES)
@pytest.mark.parametrize("commits", [(5,), (2, 5), (0, 1, 2, 3, 4, 5)], ids=str)
def test_it_gives_what_a_persistent_query_writes(
    sql: str, cache: str, commits: tuple[int, ...]
) -> None:
    stepped = Stepped(cache_max_bytes_buffering=cache, commit_interval_ms=str(INTERVAL_MS))
    kind = "STREAM" if "n + 1" in sql else "TABLE"
    stepped.db.execute(f"CREATE {kind} out WITH (FORMAT='JSON', KAFKA_TOPIC='out') AS {sql}")
    stream = stepped.push(sql)
    for number, (topic, records) in enumerate(RECORDS):
        stepped.put(topic, records)
        if number in commits:
            stepped.commit()
    assert pushed(waiting(stream)) == written(stepped.db, "out")
    stepped.db.close()


def test_one_change_for_each_key_and_commit(cached: Stepped) -> None:
    stream = cached.push(QUERIES[0])
    cached.put("s", [("a", 1, 1), ("b", 1, 2), ("a", 1, 3)])
    cached.put("s", [("a", 1, 4)])
    assert waiting(stream) == [], "nothing leaves before the commit"
    cached.commit(INTERVAL_MS - 1)
    assert waiting(stream) == [], "the session's interval counts, not the engine's"
    cached.commit(1)
    assert sorted(waiting(stream)) == [("a", 3, 3), ("b", 1, 1)]
    cached.put("s", [("b", 1, 5)])
    cached.commit()
    assert waiting(stream) == [("b", 2, 2)]
    (status,) = cached.db.metrics().arrow().to_pylist()
    assert status["records_out"] == 3


def test_without_a_cache_each_change_comes_at_once() -> None:
    stepped = Stepped(cache_max_bytes_buffering="0", commit_interval_ms=str(INTERVAL_MS))
    stream = stepped.push(QUERIES[0])
    stepped.put("s", [("a", 1, 1), ("a", 1, 3)])
    assert waiting(stream) == [("a", 1, 1), ("a", 2, 2)]
    stepped.db.close()


WINDOWED = "FROM s WINDOW {} GROUP BY k EMIT CHANGES;"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k, COUNT(*) AS n " + WINDOWED.format("TUMBLING (SIZE 1 SECOND)"),
         [("a", 1), ("a", 2), ("b", 1)]),
        ("SELECT COUNT(*) AS n, k "
         + WINDOWED.format("HOPPING (SIZE 1 SECOND, ADVANCE BY 1 SECOND)"),
         [(1, "a"), (1, "b"), (2, "a")]),
        ("SELECT COUNT(*) AS n FROM s GROUP BY k EMIT CHANGES;", [(1,), (3,)]),
        ("SELECT COUNT(*) AS n FROM s EMIT CHANGES;", [(4,)]),
        ("SELECT COUNT(*) AS `$KEY_0` FROM s GROUP BY k EMIT CHANGES;", [(1,), (3,)]),
    ],
)  # fmt: skip
def test_rows_of_different_keys_stay_apart_without_their_key(
    cached: Stepped, sql: str, expected: list[tuple[Any, ...]]
) -> None:
    stream = cached.push(sql)
    cached.put("s", [("a", 1, 100), ("b", 1, 200), ("a", 1, 300)])
    cached.put("s", [("a", 1, 5_000)])
    cached.commit()
    assert sorted(waiting(stream)) == expected


def test_rows_of_a_table_without_its_key(cached: Stepped) -> None:
    stream = cached.push("SELECT n FROM t EMIT CHANGES;")
    cached.put("t", [("x", 1, 1), ("y", 1, 2), ("x", 3, 3)])
    cached.commit()
    assert sorted(waiting(stream)) == [(1,), (3,)]
    cached.put("t", [("y", None, 4)])
    cached.commit()
    assert waiting(stream) == [(None, True)]


def test_waiting_until_idle_commits(cached: Stepped) -> None:
    stream = cached.push(QUERIES[0])
    cached.put("s", [("a", 1, 1), ("a", 1, 2)])
    assert list(stream) == [("a", 2, 2)]

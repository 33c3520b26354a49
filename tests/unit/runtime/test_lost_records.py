"""Records are deleted before a query has read them: `millstream.lost.records`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import millstream
from millstream.runtime.spec import QueryState

SOURCE = (
    "CREATE STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=2, "
    "VALUE_FORMAT='JSON');"
)


@pytest.fixture
def db() -> Iterator[millstream.Database]:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as database:
        database.execute(SOURCE)
        yield database


def insert(db: millstream.Database, numbers: range) -> None:
    db.insert("s", [{"K": f"k{n % 8}", "N": n} for n in numbers])


def lose(db: millstream.Database, partition: int, records: int) -> None:
    """Delete records that the only query has not read."""
    log = db.engine.log
    log.truncate("s", partition, log.start_offset("s", partition) + records)


def started_behind(db: millstream.Database, sql: str, policy: str) -> None:
    """A query that is paused while records come of which some are deleted, and resumed."""
    db.execute(f"SET 'millstream.lost.records' = '{policy}'; {sql}")
    (query,) = db.engine.catalog.queries
    insert(db, range(80))
    db.engine.drain()
    db.execute(f"PAUSE {query};")
    insert(db, range(80, 160))
    ends = [db.engine.log.end_offset("s", partition) for partition in (0, 1)]
    lost = [(at - db.engine.log.positions(query)["s", p]) // 2 for p, at in enumerate(ends)]
    for partition, count in enumerate(lost):
        lose(db, partition, db.engine.log.positions(query)["s", partition] + count)
    db.execute(f"RESUME {query};")
    db.engine.drain()


def entries(db: millstream.Database) -> list[str]:
    rows = db.processing_log().to_pylist()
    return [row["message"] for row in rows if "were deleted" in row["message"]]


COUNTS = "CREATE TABLE t AS SELECT k, COUNT(*) AS c FROM s GROUP BY k;"


def test_a_query_stops(db: millstream.Database) -> None:
    """By default: nothing is lost without a decision."""
    started_behind(db, COUNTS, "fail")
    (status,) = db.engine.statuses()
    assert (status.state, status.code) == (QueryState.ERROR, "E-GAP")
    assert entries(db) == []
    assert sum(count for (count,) in db.execute("SELECT c FROM t;")) == 80


def test_a_query_goes_on_and_says_what_was_lost(db: millstream.Database) -> None:
    started_behind(db, COUNTS, "continue")
    (status,) = db.engine.statuses()
    assert status.state is QueryState.RUNNING
    assert status.metrics.problems == 2
    assert len(entries(db)) == 2
    lost = sum(int(entry.split()[0]) for entry in entries(db))
    assert 0 < lost < 80
    assert sum(count for (count,) in db.execute("SELECT c FROM t;")) == 160 - lost
    insert(db, range(10))
    db.engine.drain()
    assert sum(count for (count,) in db.execute("SELECT c FROM t;")) == 170 - lost
    assert len(entries(db)) == 2, "once"


def test_behind_a_repartition(db: millstream.Database) -> None:
    """What the query writes itself is never skipped."""
    started_behind(
        db, "CREATE TABLE t AS SELECT n % 5 AS m, COUNT(*) AS c FROM s GROUP BY n % 5;", "continue"
    )
    lost = sum(int(entry.split()[0]) for entry in entries(db))
    assert sum(count for (count,) in db.execute("SELECT c FROM t;")) == 160 - lost


def test_everything_that_was_not_read_is_lost(db: millstream.Database) -> None:
    db.execute(f"SET 'millstream.lost.records' = 'continue'; {COUNTS}")
    (query,) = db.engine.catalog.queries
    db.execute(f"PAUSE {query};")
    insert(db, range(40))
    for partition in (0, 1):
        lose(db, partition, 40)
    db.execute(f"RESUME {query};")
    db.engine.drain()
    assert len(entries(db)) == 2
    insert(db, range(40, 48))
    db.engine.drain()
    assert sum(count for (count,) in db.execute("SELECT c FROM t;")) == 8


def test_another_error_is_not_skipped(
    db: millstream.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute(f"SET 'millstream.lost.records' = 'continue'; {COUNTS}")

    def damaged(*_arguments: Any, **_named: Any) -> Any:
        raise millstream.CorruptionError("it is damaged", code="E-GAP")

    monkeypatch.setattr(type(db.engine.log), "read", damaged)
    insert(db, range(4))
    db.engine.drain()
    (status,) = db.engine.statuses()
    assert status.state is QueryState.ERROR
    assert entries(db) == []

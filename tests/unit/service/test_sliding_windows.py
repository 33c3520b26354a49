"""WINDOW SLIDING from statement to rows; tests/properties has its rule."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream import Database, MillstreamError, fn
from millstream.testing import TopologyTestDriver

SOURCE = """
CREATE STREAM r (k STRING KEY, v INT)
  WITH (kafka_topic='r', partitions=1, value_format='JSON');
"""
SELECT = (
    "SELECT k, COUNT(*) AS n, COLLECT_LIST(v) AS l FROM r"
    " WINDOW SLIDING (SIZE 10 MILLISECONDS, GRACE PERIOD 1 HOUR) GROUP BY k"
)
TABLE = f"CREATE TABLE t AS {SELECT} EMIT CHANGES;"
RECORDS = [(100, 1), (105, 2), (112, 3), (103, 4)]
WINDOWS = [
    ("a", 90, 100, 1, [1]),
    ("a", 93, 103, 2, [1, 4]),
    ("a", 95, 105, 3, [1, 2, 4]),
    ("a", 101, 111, 2, [2, 4]),
    ("a", 102, 112, 3, [2, 3, 4]),
    ("a", 104, 114, 2, [2, 3]),
    ("a", 106, 116, 1, [3]),
]
"""What 103, which came last, has changed is among them: a window of its own, two to which it was
added, and the one behind it, of 105 and 112."""


def opened(path: str | Path = ":memory:") -> Database:
    return millstream.connect(path, properties={"auto.offset.reset": "earliest"})


def insert(db: Database, *records: tuple[int, int]) -> None:
    db.insert("r", [{"k": "a", "v": v, "ROWTIME": time} for time, v in records])
    db.wait()


def rows(db: Database, text: str) -> list[Any]:
    return db.execute(text).fetchall()  # type: ignore[union-attr]


def test_windows_follow_the_records() -> None:
    with opened() as db:
        db.execute(SOURCE + TABLE)
        insert(db, *RECORDS)
        assert rows(db, "SELECT * FROM t ORDER BY windowstart") == WINDOWS
        found = rows(db, "SELECT n FROM t WHERE k = 'a' AND windowstart >= 102")
        assert sorted(found) == [(1,), (2,), (3,)]


def test_records_of_earlier_runs_are_in_windows_that_come_later(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as db:
        db.execute(SOURCE + TABLE)
        insert(db, *RECORDS[:2])
    with opened(tmp_path / "a.db") as db:
        insert(db, RECORDS[2])
    with opened(tmp_path / "a.db") as db:
        insert(db, RECORDS[3])
        assert rows(db, "SELECT * FROM t ORDER BY windowstart") == WINDOWS


def test_a_query_over_history_has_the_same_windows() -> None:
    with opened() as db:
        db.execute(SOURCE)
        insert(db, *RECORDS)
        found = rows(db, SELECT)
    assert sorted((k, n, sorted(listed)) for k, n, listed in found) == sorted(
        (k, n, listed) for k, _, _, n, listed in WINDOWS
    )


def test_a_push_query_shows_each_change() -> None:
    with opened() as db:
        db.execute(SOURCE)
        insert(db, *RECORDS)
        with db.execute(f"{SELECT} EMIT CHANGES LIMIT 10") as changes:  # type: ignore[union-attr]
            found = [tuple(row)[1:] for row in changes]
    assert found == [
        (1, [1]),
        *((2, [1, 2]), (1, [2])),
        *((2, [2, 3]), (1, [3])),
        *((2, [1, 4]), (3, [1, 2, 4]), (2, [2, 4]), (3, [2, 3, 4]), (2, [2, 3])),
    ]


def test_final_results_come_when_a_window_is_closed() -> None:
    with opened() as db:
        final = SELECT.replace("GRACE PERIOD 1 HOUR", "GRACE PERIOD 0 SECONDS")
        db.execute(f"{SOURCE} CREATE TABLE t AS {final} EMIT FINAL;")
        insert(db, (100, 1), (105, 2))
        assert rows(db, "SELECT windowstart, n FROM t ORDER BY windowstart") == [(90, 1)]
        insert(db, (112, 3))
        assert rows(db, "SELECT windowstart, n FROM t ORDER BY windowstart") == [
            (90, 1),
            (95, 2),
            (101, 1),
        ]


def test_windows_close_when_the_input_is_idle() -> None:
    final = SELECT.replace("GRACE PERIOD 1 HOUR", "GRACE PERIOD 1 SECOND")
    with TopologyTestDriver(
        f"{SOURCE} CREATE TABLE t AS {final} EMIT FINAL;",
        properties={"idle.window.close.ms": 5000},
    ) as driver:
        for time, v in RECORDS[:2]:
            driver.pipe("r", {"v": v}, key="a", timestamp=time)
        assert driver.read("t") == []
        driver.advance_wall_clock(dt.timedelta(seconds=6))
        found = [record.value for record in driver.read("t")]
    assert found == [{"N": 1, "L": [1]}, {"N": 2, "L": [1, 2]}, {"N": 1, "L": [2]}]


def test_the_chain_is_the_statement() -> None:
    with opened() as db:
        db.execute(SOURCE)
        window = millstream.sliding("10 milliseconds", grace="1 hour")
        chain = db.stream("r").group_by("k").window(window)
        made = chain.aggregate(n=fn.count(), l=fn.collect_list(millstream.col("v")))
        explained = rows(db, f"EXPLAIN (PLAN) {SELECT} EMIT CHANGES;")
        assert made.explain(stage="PLAN").fetchall() == explained
        assert "WINDOW SLIDING 10" in str(explained)


def test_the_topic_has_windowed_keys_that_others_can_read() -> None:
    with opened() as db:
        db.execute(SOURCE + TABLE)
        insert(db, *RECORDS)
        db.execute("""
            CREATE STREAM read (k STRING KEY, n BIGINT) WITH (kafka_topic='T', value_format='JSON',
              window_type='HOPPING', window_size='10 MILLISECONDS');
        """)
        found = rows(db, "SELECT windowstart, windowend FROM read")
    assert set(found) == {(start, end) for _, start, end, *_ in WINDOWS}


@pytest.mark.parametrize(
    ("window", "words"),
    [
        ("SLIDING (10 MILLISECONDS)", "'SIZE'"),
        ("SLIDING (SIZE 0 SECONDS)", ""),
        ("SLIDING (SIZE 1 HOUR, ADVANCE BY 1 MINUTE)", "')'"),
        ("SLIDING (SIZE 1 HOUR, RETENTION 1 MINUTE)", "RETENTION"),
    ],
)
def test_what_is_no_window_is_refused(window: str, words: str) -> None:
    with opened() as db, pytest.raises(MillstreamError) as raised:
        db.execute(
            f"{SOURCE} CREATE TABLE t AS SELECT k, COUNT(*) FROM r WINDOW {window}"
            " GROUP BY k EMIT CHANGES;"
        )
    assert words in str(raised.value)


def test_the_name_is_still_free() -> None:
    with opened() as db:
        db.execute("""
            CREATE STREAM sliding (sliding STRING KEY, v INT)
              WITH (kafka_topic='s', partitions=1, value_format='JSON');
            CREATE TABLE t AS SELECT sliding, COUNT(*) FROM sliding
              WINDOW sliding SLIDING (SIZE 1 SECOND) GROUP BY sliding EMIT CHANGES;
        """)

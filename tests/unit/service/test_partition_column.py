"""PARTITION_COLUMN: streams whose records lie by the number in a column, not by their key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import millstream
from millstream import Database, EngineSettings, StatementError
from millstream.formats.partition import partition_by_column

VISITS = (
    "CREATE STREAM visits (page STRING KEY, region INT, n BIGINT) WITH (KAFKA_TOPIC='visits',"
    " PARTITIONS=3, VALUE_FORMAT='JSON', PARTITION_COLUMN='region');"
)
COPY = "CREATE STREAM copied WITH (PARTITION_COLUMN='n') AS SELECT * FROM visits;"
PLACES = "CREATE STREAM {0}_at AS SELECT page, n, ROWPARTITION AS p FROM {0};"
ROWS = [("a", 0, 10), ("a", 1, 11), ("b", 2, 12), ("b", 5, 13), ("a", -1, 14), ("c", 30, 15)]


def opened(path: str = ":memory:", batch: int = 1_000) -> Database:
    return millstream.connect(
        path,
        settings=EngineSettings(max_batch_records=batch),
        properties={"auto.offset.reset": "earliest"},
    )


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return sorted(db.execute(sql), key=str)  # type: ignore[arg-type, type-var]


def places(db: Database, stream: str) -> set[tuple[int, int]]:
    """The number `n` of each record and its partition."""
    db.execute(PLACES.format(stream))
    db.wait()
    return {(n, p) for _, n, p in rows(db, f"SELECT * FROM {stream}_at")}


def by_values(db: Database) -> None:
    for row in ROWS:
        db.execute("INSERT INTO visits VALUES (?, ?, ?);", row)


def by_rows(db: Database) -> None:
    db.insert("visits", ROWS)


def by_query(db: Database) -> None:
    db.execute(
        "CREATE STREAM raw (page STRING KEY, region INT, n BIGINT)"
        " WITH (KAFKA_TOPIC='raw', PARTITIONS=2, VALUE_FORMAT='JSON');"
        "INSERT INTO visits SELECT * FROM raw;"
    )
    db.insert("raw", ROWS)
    db.wait()


@pytest.mark.parametrize("write", [by_values, by_rows, by_query])
def test_the_column_decides_whoever_writes(write: Callable[[Database], None]) -> None:
    with opened() as db:
        db.execute(VISITS)
        write(db)
        assert places(db, "visits") == {(n, region % 3) for _, region, n in ROWS}


@pytest.mark.parametrize("batch", [1, 2, 1_000])
def test_results_are_those_of_streams_that_lie_by_their_keys(tmp_path: Path, batch: int) -> None:
    """Groups, joins and pull queries, over a restart."""
    path = str(tmp_path / "m.db")
    with opened(path, batch) as db:
        db.execute(VISITS + COPY)
        db.execute(
            "CREATE TABLE pages (page STRING PRIMARY KEY, title STRING)"
            " WITH (KAFKA_TOPIC='pages', PARTITIONS=3, VALUE_FORMAT='JSON');"
        )
        db.insert("pages", [("a", "Start"), ("b", "News"), ("c", "Games")])
        db.execute(
            "CREATE TABLE counted AS SELECT page, COUNT(*) AS count FROM copied GROUP BY page;"
            "CREATE STREAM titled AS SELECT v.page AS page, n, title FROM copied v"
            "  JOIN pages p ON v.page = p.page;"
            "CREATE STREAM both AS SELECT v.page AS page, v.n AS n, c.n AS m FROM visits v"
            "  JOIN copied c WITHIN 1 HOUR ON v.page = c.page;"
        )
        by_rows(db)
        db.wait()
    with opened(path, batch) as db:
        by_rows(db)
        db.wait()
        assert rows(db, "SELECT * FROM counted") == [("a", 6), ("b", 4), ("c", 2)]
        assert rows(db, "SELECT * FROM counted WHERE page = 'b'") == [("b", 4)]
        titles = {"a": "Start", "b": "News", "c": "Games"}
        found = rows(db, "SELECT page, n, title FROM titled")
        assert found == sorted(2 * [(page, n, titles[page]) for page, _, n in ROWS])
        assert len(rows(db, "SELECT * FROM both")) == 6**2 + 4**2 + 2**2
        assert places(db, "copied") == {(n, n % 3) for _, _, n in ROWS}


def test_records_without_a_number_stay_or_are_spread() -> None:
    with opened() as db:
        db.execute(
            VISITS + "CREATE STREAM kept WITH (PARTITION_COLUMN='region') AS SELECT * FROM visits;"
        )
        db.insert("visits", [("a", None, n) for n in range(30)])
        db.wait()
        assert {p for _, p in places(db, "visits")} == {0, 1, 2}
        assert places(db, "kept") == places_again(db, "visits")


def places_again(db: Database, stream: str) -> set[tuple[int, int]]:
    return {(n, p) for _, n, p in rows(db, f"SELECT * FROM {stream}_at")}


@pytest.mark.parametrize("backfill", ["", ", BACKFILL='duckdb'"])
def test_a_back_fill_writes_the_same_places(backfill: str) -> None:
    with opened() as db:
        db.execute(VISITS)
        by_rows(db)
        db.execute(
            f"CREATE STREAM copied WITH (PARTITION_COLUMN='n'{backfill}) AS SELECT * FROM visits;"
        )
        db.wait()
        assert places(db, "copied") == {(n, n % 3) for _, _, n in ROWS}


def test_the_topic_of_such_a_stream_is_declared_with_it() -> None:
    with opened() as db:
        db.execute(VISITS)
        db.stream("visits").group_by("page").count().to("counted")
        with pytest.raises(StatementError, match="in the partitions of REGION"):
            db.stream("visits").to_table("latest")
        made = db.stream("visits").select("page", "n").to("small", partition_column="n")
        assert made.query_id is not None
        assert "partition from N" in str(db.stream("small").explain("x", partition_column="n"))
        with pytest.raises(StatementError, match="has partition column = N which is not"):
            db.stream("visits").select("page", "n").to("small", or_replace=True)


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), st.integers(1, 64))
def test_the_partition_is_the_number_modulo_their_count(
    numbers: list[int | None], partitions: int
) -> None:
    found = partition_by_column(pa.array(numbers, pa.int64()), partitions)
    assert found.tolist() == [-1 if n is None else n % partitions for n in numbers]

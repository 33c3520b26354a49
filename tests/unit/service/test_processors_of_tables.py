"""Processors that read tables: their changes, among the records of streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream
from millstream import (
    Database,
    EngineSettings,
    KeyValueStore,
    Processor,
    ProcessorContext,
    Record,
    Topology,
)
from tests.draws import draws
from tests.unit.processors.test_batches import Doubled

BASE = 1_700_000_000_000
SQL = """
CREATE TABLE towns (id STRING PRIMARY KEY, town STRING)
  WITH (kafka_topic='towns', partitions=2, value_format='JSON');
CREATE STREAM gone (id STRING KEY, town STRING) WITH (kafka_topic='towns', value_format='KAFKA');
CREATE STREAM orders (id STRING KEY, n INT)
  WITH (kafka_topic='orders', partitions=2, value_format='JSON');
"""
PLACED = "CREATE STREAM placed AS SELECT * FROM PROCESS(orders, towns, 'Placed');"


class Placed(Processor):
    """Each order with the town of its customer as of then: a join, and a count of changes."""

    output = "id STRING KEY, n INT, town STRING, moves BIGINT"

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.towns = context.store("towns", KeyValueStore("STRING", "STRING"))
        self.moves = context.store("moves", KeyValueStore("STRING", "BIGINT"))

    def process(self, record: Record) -> None:
        if record.source.upper() == "TOWNS":
            assert record.deleted == (record.value["TOWN"] is None)
            self.towns.put(record.key, record.value["TOWN"])
            self.moves.put(record.key, self.moves.get(record.key, 0) + 1)
            return
        assert not record.deleted
        row = {"TOWN": self.towns.get(record.key), "MOVES": self.moves.get(record.key)}
        self.context.forward(record.key, {"N": record.value["N"], **row})


class Seen(Processor):
    """What it sees of a table, numbered."""

    output = "id STRING KEY, seen STRING, nth BIGINT"

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.count = context.store("count", KeyValueStore("STRING", "BIGINT"))

    def process(self, record: Record) -> None:
        n = self.count.get("all", 0) + 1
        self.count.put("all", n)
        seen = "deleted" if record.deleted else str(record.value["TOWN"])
        self.context.forward(record.key, {"SEEN": seen, "NTH": n})


def opened(path: str | Path = ":memory:", batch: int = 1_000) -> Database:
    return millstream.connect(
        path,
        functions=[millstream.processor(Placed), millstream.processor(Seen)],
        settings=EngineSettings(max_batch_records=batch),
        properties={"auto.offset.reset": "earliest"},
    )


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return db.execute(sql).fetchall()  # type: ignore[union-attr]


CHANGES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["ulm", "bern", None, 1, 2])), max_size=20
)


@settings(max_examples=draws(25), deadline=None)
@given(CHANGES, st.integers(1, 5))
def test_changes_and_deletions_come_in_the_order_of_time(
    changes: list[tuple[str, str | int | None]], batch: int
) -> None:
    towns: dict[str, str | None] = {}
    moves: dict[str, int] = {}
    expected = []
    with opened(batch=batch) as db:
        db.execute(f"{SQL}{PLACED} PAUSE ALL;")
        for at, (key, what) in enumerate(changes):
            time = BASE + at
            if isinstance(what, int):
                db.insert("orders", [{"id": key, "n": what, "ROWTIME": time}])
                expected.append((key, what, towns.get(key), moves.get(key)))
            else:
                target = "gone" if what is None else "towns"
                db.insert(target, [{"id": key, "town": what, "ROWTIME": time}])
                towns[key], moves[key] = what, moves.get(key, 0) + 1
        db.execute("RESUME ALL;")
        db.wait()
        assert sorted(rows(db, "SELECT * FROM placed"), key=str) == sorted(expected, key=str)


def test_a_table_of_a_query_and_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as db:
        db.execute(f"""
            {SQL}
            CREATE TABLE large AS SELECT id, LATEST_BY_OFFSET(n) AS town FROM orders GROUP BY id
              HAVING LATEST_BY_OFFSET(n) > 5 EMIT CHANGES;
            CREATE STREAM seen AS SELECT * FROM PROCESS(large, 'Seen');
        """)
        db.insert("orders", [("a", 7), ("b", 3), ("a", 8), ("a", 2)])
        db.wait()
    with opened(tmp_path / "a.db") as db:
        db.insert("orders", [("a", 9)])
        db.wait()
        assert rows(db, "SELECT * FROM seen") == [
            *(("a", "7", 1), ("a", "8", 2), ("a", "deleted", 3), ("a", "9", 4))
        ]


def test_sources_of_a_topology_are_tables_made_by_sql() -> None:
    topology = (
        Topology()
        .add_source("orders", "orders")
        .add_source("towns", "towns")
        .add_processor("placed", Placed, "orders", "towns")
        .add_sink("placed_orders", "placed", "placed")
    )
    with opened() as db:
        db.execute(SQL)
        db.deploy(topology, "placing")
        db.insert("towns", [{"id": "a", "town": "ulm", "ROWTIME": BASE}])
        db.insert("orders", [{"id": "a", "n": 1, "ROWTIME": BASE + 1}])
        db.wait()
        assert rows(db, "SELECT * FROM placed_orders") == [("a", 1, "ulm", 1)]


def test_processors_of_batches_read_streams_only() -> None:
    with opened() as db:
        db.register(millstream.processor(Doubled))
        db.execute(SQL)
        with pytest.raises(millstream.StatementError, match="processor of batches"):
            db.execute("CREATE STREAM x AS SELECT * FROM PROCESS(towns, 'Doubled');")


def test_a_back_fill_sees_the_same_changes() -> None:
    with opened() as db:
        db.execute(SQL)
        for town, target in (("ulm", "towns"), ("bern", "towns"), (None, "gone")):
            db.insert(target, [{"id": "a", "town": town}])
        db.execute("CREATE STREAM live AS SELECT * FROM PROCESS(towns, 'Seen');")
        db.execute(
            "CREATE STREAM filled WITH (BACKFILL='duckdb') AS SELECT * FROM PROCESS(towns, 'Seen');"
        )
        db.insert("towns", [{"id": "a", "town": "rom"}])
        db.wait()
        assert rows(db, "SELECT * FROM filled") == rows(db, "SELECT * FROM live")
        assert [seen for _, seen, _ in rows(db, "SELECT * FROM filled")] == [
            *("ulm", "bern", "deleted", "rom")
        ]

"""A query whose past is a job's: the rows of one that has met every record itself, or no query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

import millstream
from millstream import Database, udf
from millstream.command_topic import issuing
from millstream.ddl.environment import ConfiguredStatement
from millstream.functions.user import UserFunction
from millstream.historical import backfilling
from millstream.metrics.figures import BackfillMetrics
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.query.session import Session
from millstream.scripts.text import parse_text
from millstream.service.engine import Engine
from tests.unit.command_topic.test_killed_statements import execute, killed
from tests.unit.conftest import EARLIEST, ORDERS

PEOPLE = """
CREATE TABLE people (name STRING PRIMARY KEY, town STRING)
  WITH (KAFKA_TOPIC='people', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE STREAM returns (customer STRING KEY, reason STRING)
  WITH (KAFKA_TOPIC='returns', PARTITIONS=2, VALUE_FORMAT='JSON');
"""
QUERIES = {
    "projection": "CREATE STREAM o {} AS SELECT customer, amount * 2 AS twice FROM orders;",
    "rows that move": "CREATE TABLE o {} AS SELECT item, COUNT(*) AS n, SUM(amount) AS total"
    " FROM orders GROUP BY item;",
    "windows": "CREATE TABLE o {} AS SELECT item, COUNT(*) AS n FROM orders"
    " WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY item;",
    "final windows": "CREATE TABLE o {} AS SELECT item, COUNT(*) AS n FROM orders WINDOW TUMBLING"
    " (SIZE 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY item EMIT FINAL;",
    "sessions": "CREATE TABLE o {} AS SELECT customer, COUNT(*) AS n FROM orders"
    " WINDOW SESSION (4 SECONDS) GROUP BY customer;",
    "table join": "CREATE STREAM o {} AS SELECT o.customer, item, town FROM orders o"
    " LEFT JOIN people p ON o.customer = p.name;",
    "table of a table": "CREATE TABLE o {} AS SELECT town, COUNT(*) AS n FROM people"
    " GROUP BY town;",
    "streams joined": "CREATE STREAM o {} AS SELECT o.customer, item, reason FROM orders o"
    " JOIN returns r WITHIN 3 SECONDS GRACE PERIOD 1 SECONDS ON o.customer = r.customer;",
}
SINKS = ("", "WITH (BACKFILL = 'duckdb')")
COUNTS = QUERIES["rows that move"].format("WITH (BACKFILL = 'duckdb')")


def fill(db: Database, first: int, end: int) -> None:
    """Each row of the table comes before the orders of its time: a live query works meanwhile."""
    for n in range(first, end):
        if n % 3 == 0:
            town = "NULL" if n % 5 == 4 else f"'t{n % 2}'"
            values = f"{n * 1000}, 'c{n % 5}', {town}"
            db.execute(f"INSERT INTO people (ROWTIME, name, town) VALUES ({values});")
            values = f"{n * 1000}, 'c{n % 4}', 'r{n}'"
            db.execute(f"INSERT INTO returns (ROWTIME, customer, reason) VALUES ({values});")
        late = 7000 if n % 8 == 7 else 0
        values = f"{n * 1000 - late}, 'c{n % 4}', 'i{n % 3}', {n}"
        db.execute(f"INSERT INTO orders (ROWTIME, customer, item, amount) VALUES ({values});")


def rows(db: Database, query: str) -> Any:
    """All records of a stream, the last ones of a table."""
    found: list[Any] = []
    for partition in range(2):
        end = db.engine.log.end_offset("O", partition)
        batch = db.engine.log.read("O", partition, 0, end).batch if end else None
        found += [
            (partition, row["key"], row["value"], row["timestamp"])
            for row in (batch.to_pylist() if batch is not None else ())
        ]
    return {row[1]: row for row in found} if "CREATE TABLE" in query else sorted(found)


def live_and_filled(query: str, functions: Sequence[UserFunction] = ()) -> list[Any]:
    """The rows of a query that has met every record, and of one whose past was a job's."""
    results = []
    for sink in SINKS:
        with millstream.connect(properties=EARLIEST, functions=functions) as db:
            db.execute(ORDERS + PEOPLE)
            fill(db, 0, 30)
            db.execute(query.format(sink))
            db.wait()
            fill(db, 30, 45)
            db.wait()
            assert not [status.error for status in db.engine.statuses() if status.error]
            results.append(rows(db, query))
    return results


@pytest.mark.parametrize("query", QUERIES)
def test_it_goes_on_as_if_it_had_met_every_record(query: str) -> None:
    live, filled = live_and_filled(QUERIES[query])
    assert filled == live
    assert live


def test_it_goes_on_when_the_file_is_opened_again(tmp_path: Any) -> None:
    path = str(tmp_path / "orders.db")
    with millstream.connect(path, properties=EARLIEST) as db:
        db.execute(ORDERS + PEOPLE)
        fill(db, 0, 12)
        db.execute(COUNTS)
    with millstream.connect(path, properties=EARLIEST) as db:
        fill(db, 12, 15)
        db.wait()
        found = db.execute("SELECT item, n, total FROM o;")
        assert sorted(found) == [("i0", 5, 30.0), ("i1", 5, 35.0), ("i2", 5, 40.0)]


def test_what_was_there_is_filled_though_the_session_says_latest(db: Database) -> None:
    db.execute(ORDERS + PEOPLE)
    fill(db, 0, 6)
    db.execute("SET 'auto.offset.reset' = 'latest';")
    db.execute(COUNTS)
    db.wait()
    assert sorted(db.execute("SELECT item, n FROM o;")) == [("i0", 2), ("i1", 2), ("i2", 2)]


REFUSED = {
    COUNTS.replace("'duckdb'", "'pencil'"): "'pencil' is not one of duckdb, spark",
    COUNTS.replace("CREATE TABLE o", "CREATE TABLE p"): "already exists",
    COUNTS.replace("WITH (", "WITH (VALUE_FORMAT='KAFKA', "): "KAFKA",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_refused(db: Database, sql: str) -> None:
    db.execute(ORDERS)
    db.execute(COUNTS.replace("TABLE o", "TABLE p"))
    before = db.engine.log.topics(), db.engine.catalog
    with pytest.raises(MillstreamError, match=REFUSED[sql]):
        db.execute(sql)
    assert (db.engine.log.topics(), db.engine.catalog) == before


def test_a_name_that_is_taken_needs_no_job(db: Database) -> None:
    db.execute(ORDERS)
    db.execute(COUNTS)
    again = db.execute(COUNTS.replace("TABLE o", "TABLE IF NOT EXISTS o"))
    assert isinstance(again, millstream.Done)
    assert not again.changed


def test_one_that_is_cancelled_leaves_no_trace(db: Database) -> None:
    def interrupting(value: str) -> str:
        db.engine.historical.cancel()
        return value

    db.register(udf("INTERRUPTING", "STRING -> STRING", interrupting))
    db.execute(ORDERS + PEOPLE)
    fill(db, 0, 6)
    before = db.engine.log.topics(), db.engine.catalog
    counts = COUNTS.replace("SELECT item", "SELECT INTERRUPTING(item) AS item")
    with pytest.raises(UnavailableError, match="cancelled; nothing was made"):
        db.execute(counts.replace("BY item", "BY INTERRUPTING(item)"))
    assert (db.engine.log.topics(), db.engine.catalog) == before
    assert not db.engine.historical.backfills


def test_progress_is_reported(db: Database) -> None:
    told: list[BackfillMetrics] = []

    def looking(value: str) -> str:
        told.extend(db.metrics().backfills)
        return value

    db.register(udf("LOOKING", "STRING -> STRING", looking))
    db.execute(ORDERS + PEOPLE)
    fill(db, 0, 6)
    db.execute(COUNTS.replace("GROUP", "WHERE LOOKING(item) = item GROUP"))
    assert {(one.sink, one.stage, one.total) for one in told} == {("O", "read", 6)}
    assert max(one.done for one in told) == 6
    assert not db.metrics().backfills


def test_what_it_reads_may_not_become_another_thing(db: Database) -> None:
    db.execute(ORDERS + PEOPLE)
    fill(db, 0, 6)
    (piece,) = parse_text(COUNTS)
    session = Session(EARLIEST)
    filled = backfilling.run_backfill(piece.statement, piece, db.engine.historical, session)  # type: ignore[arg-type]
    db.execute("DROP STREAM orders DELETE TOPIC;")
    db.execute(ORDERS.replace("amount DOUBLE", "amount BIGINT"))
    before = db.engine.log.topics(), db.engine.catalog
    with pytest.raises(MillstreamError):
        configured = ConfiguredStatement(
            piece.statement, piece.text, piece.script, session.properties
        )
        issuing.issue(db.engine.command_topic, configured, filled)
    assert (db.engine.log.topics(), db.engine.catalog) == before


def counts(engine: Engine) -> dict[bytes, Any]:
    """The last value of each key on the topic of the new table."""
    topic = engine.log.topic("O")
    if topic is None:
        return {}
    records = engine.log.read("O", 0, 0, 1000).batch.to_pylist()
    return {row["key"]: json.loads(row["value"]) for row in records}


def test_killed_at_any_effect_it_is_done_or_not_given() -> None:
    sql = (
        "CREATE TABLE o WITH (BACKFILL = 'duckdb') AS SELECT place, COUNT(*) AS n FROM visits"
        " GROUP BY place;"
    )
    more = "INSERT INTO visits VALUES ('bob', 'inn'); INSERT INTO visits VALUES ('cy', 'bar');"
    seen = set()
    for effect, machine in killed(sql):
        filled = bool(counts(machine.engine))
        machine.kill_and_start()
        given = "O" in machine.engine.catalog.sources
        assert given == filled, f"killed at effect {effect}"
        seen.add(given)
        execute(machine.engine, more if given else f"{more}{sql}")
        machine.engine.drain()
        assert not [status.error for status in machine.engine.statuses() if status.error]
        found = {key: value["N"] for key, value in counts(machine.engine).items()}
        assert found == {b'"inn"': 2, b'"bar"': 1}, f"killed at effect {effect}"
    assert seen == {True, False}

"""CREATE OR REPLACE … WITH (BACKFILL = …): a table is rebuilt beside its running query and switched
in one commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from millstream import Database
from millstream.functions.catalogue import builtin_catalogue
from millstream.log.batches import TABLES
from millstream.log.faults import Fault
from millstream.log.simulated import SimulatedLog
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.settings import EngineSettings
from millstream.service.engine import Engine
from millstream.service.execution import resume_engine
from millstream.state.store import Store
from tests.unit.command_topic.test_killed_statements import VISITS, execute, killed
from tests.unit.conftest import ORDERS
from tests.unit.queries.test_backfilling import PEOPLE, fill

BEFORE = "CREATE TABLE t AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;"
DEFINITIONS = {
    "the same": "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer",
    "another aggregate": "SELECT customer, COUNT_DISTINCT(item) AS n FROM orders GROUP BY customer",
    "fewer rows": "SELECT customer, COUNT(*) AS n FROM orders WHERE amount > 25 GROUP BY customer",
    "no rows": "SELECT customer, COUNT(*) AS n FROM orders WHERE amount > 999 GROUP BY customer",
    "one more column": "SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders"
    " GROUP BY customer",
    "another key": "SELECT item AS customer, COUNT(*) AS n FROM orders GROUP BY item",
    "a join": "SELECT o.customer AS customer, COUNT(*) AS n FROM orders o"
    " JOIN people p ON o.customer = p.name GROUP BY o.customer",
    "another source": "SELECT customer, COUNT(*) AS n FROM returns GROUP BY customer",
}


def replacing(definition: str) -> str:
    return f"CREATE OR REPLACE TABLE t WITH (BACKFILL = 'duckdb') AS {definition};"


def records(engine: Engine, topic: str = "T") -> list[tuple[bytes, Any]]:
    """Key and value of all records of a table's topic, partition by partition."""
    found: list[tuple[bytes, Any]] = []
    for partition in range(2):
        end = engine.log.end_offset(topic, partition)
        rows = engine.log.read(topic, partition, 0, end).batch.to_pylist() if end else []
        found += [(row["key"], row["value"] and json.loads(row["value"])) for row in rows]
    return found


def table(engine: Engine, topic: str = "T") -> dict[bytes, Any]:
    """The final contents of a table's topic."""
    return {key: value for key, value in dict(records(engine, topic)).items() if value is not None}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_it_becomes_what_a_new_table_would_be(reopen: Callable[[], Database], name: str) -> None:
    db = reopen()
    db.execute(ORDERS + PEOPLE)
    fill(db, 0, 30)
    db.execute(BEFORE)
    db.wait()
    (old,) = db.engine.catalog.queries
    db.execute(replacing(DEFINITIONS[name]))
    (new,) = db.engine.catalog.queries
    assert new != old
    assert db.engine.store.query_ids() <= {new}
    assert not [topic.name for topic in db.engine.log.topics() if old in topic.name]
    fill(db, 30, 40)
    db.execute(f"CREATE TABLE wanted AS {DEFINITIONS[name]};")
    db.wait()
    assert table(db.engine) == table(db.engine, "WANTED")
    asked = sorted(db.execute("SELECT * FROM t;"))
    assert asked == sorted(db.execute("SELECT * FROM wanted;"))
    db = reopen()
    fill(db, 40, 45)
    db.wait()
    assert table(db.engine) == table(db.engine, "WANTED")
    assert not [status.error for status in db.engine.statuses() if status.error]


def test_only_what_differs_is_written(db: Database) -> None:
    db.execute(ORDERS + PEOPLE)
    fill(db, 0, 30)
    db.execute(BEFORE)
    db.wait()
    before = records(db.engine)
    db.execute(replacing(DEFINITIONS["the same"]))
    db.wait()
    assert records(db.engine) == before
    db.execute("INSERT INTO orders (customer, item, amount) VALUES ('eve', 'i0', 1);")
    db.wait()
    db.execute(replacing(DEFINITIONS["fewer rows"]))
    db.wait()
    assert records(db.engine).count((b"eve", None)) == 1


def test_queries_that_read_it_follow(db: Database) -> None:
    db.execute(ORDERS + PEOPLE)
    fill(db, 0, 30)
    db.execute(BEFORE)
    db.execute("CREATE TABLE many AS SELECT customer, n FROM t WHERE n > 5;")
    db.wait()
    assert db.execute("SELECT * FROM many;").fetchall()
    db.execute(replacing(DEFINITIONS["fewer rows"]))
    db.wait()
    assert not db.execute("SELECT * FROM many;").fetchall()


def test_one_whose_query_has_ended_is_made_anew(db: Database) -> None:
    db.execute(ORDERS + PEOPLE)
    fill(db, 0, 6)
    db.execute(BEFORE)
    db.wait()
    db.execute("TERMINATE ALL;")
    fill(db, 6, 12)
    db.execute(replacing(DEFINITIONS["fewer rows"].replace("25", "10")))
    assert {key: value["N"] for key, value in table(db.engine).items()} == {b"c3": 1}


REFUSED = {
    "CREATE OR REPLACE STREAM s WITH (BACKFILL = 'duckdb') AS SELECT * FROM orders;": "recomputed",
    replacing("SELECT customer, n FROM t"): "from itself",
    replacing("SELECT customer, n FROM u"): "from itself",
    replacing("SELECT customer, MAX(amount) AS n FROM orders GROUP BY customer"): "columns",
    "CREATE OR REPLACE TABLE people WITH (BACKFILL = 'duckdb') AS SELECT name, LATEST_BY_OFFSET("
    "town) AS town FROM returns GROUP BY name;": "without a query",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_refused(db: Database, sql: str) -> None:
    db.execute(ORDERS + PEOPLE + BEFORE)
    db.execute("CREATE STREAM s AS SELECT * FROM orders; CREATE TABLE u AS SELECT * FROM t;")
    before = db.engine.log.topics(), db.engine.catalog
    with pytest.raises(MillstreamError, match=REFUSED[sql]):
        db.execute(sql)
    assert (db.engine.log.topics(), db.engine.catalog) == before


PLACES = "CREATE OR REPLACE TABLE places WITH (BACKFILL = 'duckdb') AS SELECT place, COUNT({}) AS n"
ANOTHER = f"{PLACES.format('guest')} FROM visits WHERE place <> 'inn' GROUP BY place;"
MORE = "INSERT INTO visits VALUES ('bob', 'inn'); INSERT INTO visits VALUES ('cy', 'bar');"


def places(engine: Engine) -> dict[str, int]:
    rows = engine.log.read("PLACES", 0, 0, 1000).batch.to_pylist()
    last = {json.loads(row["key"]): row["value"] and json.loads(row["value"]) for row in rows}
    return {key: value["N"] for key, value in last.items() if value is not None}


def test_killed_at_any_effect_it_is_the_one_or_the_other() -> None:
    seen = set()
    for effect, machine in killed(ANOTHER):
        found = places(machine.engine)
        machine.kill_and_start()
        (query,) = machine.engine.catalog.queries.values()
        switched = "COUNT(guest)" in query.statement
        assert found == ({} if switched else {"inn": 1}), f"killed at effect {effect}"
        assert machine.engine.store.query_ids() <= {query.id}
        seen.add(switched)
        execute(machine.engine, MORE)
        machine.engine.drain()
        assert not [status.error for status in machine.engine.statuses() if status.error]
        assert places(machine.engine) == ({"bar": 1} if switched else {"inn": 2, "bar": 1})
    assert seen == {True, False}


def test_where_the_switch_fails_the_old_query_goes_on() -> None:
    faults: list[Fault] = []
    log = SimulatedLog(
        TABLES,
        fault=lambda name: faults.pop() if name == "transact.write" and faults else Fault.NONE,
    )
    engine = resume_engine(
        log, Store.open(":memory:"), EngineSettings(), lambda: 0, builtin_catalogue()
    )
    execute(engine, VISITS)
    engine.drain()
    before = engine.catalog
    faults.append(Fault.REQUEST_LOST)
    with pytest.raises(UnavailableError, match="could not be written"):
        execute(engine, ANOTHER)
    assert engine.catalog == before
    execute(engine, MORE)
    engine.drain()
    assert places(engine) == {"inn": 2, "bar": 1}
    engine.close()

"""What runs in a process is made to match its catalog, whatever was left undone before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from millstream import Database
from millstream.ddl.change import plan_change
from millstream.ddl.environment import ConfiguredStatement
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.runtime.spec import QueryState
from millstream.service import queries
from millstream.service.engine import Engine
from millstream.service.reconcile import reconcile
from millstream.service.text import parse_text
from tests.unit.service.conftest import EARLIEST, fill

SCRIPT = """
CREATE TABLE spending AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;
CREATE STREAM teas AS SELECT * FROM orders WHERE item = 'tea';
CREATE STREAM jams AS SELECT * FROM orders WHERE item = 'jam';
"""
SPENDING, TEAS, JAMS = "CTAS_SPENDING_1", "CSAS_TEAS_2", "CSAS_JAMS_3"
CHANGES = (
    f"PAUSE {TEAS};",
    "CREATE OR REPLACE TABLE spending AS SELECT customer, SUM(amount) AS total FROM orders"
    " WHERE amount > 2 GROUP BY customer;",
    "DROP STREAM jams;",
    "CREATE SOURCE TABLE prices (item STRING PRIMARY KEY, price DOUBLE)"
    " WITH (KAFKA_TOPIC='prices', VALUE_FORMAT='JSON');",
    f"RESUME {TEAS};",
    f"PAUSE {TEAS};",
)


@pytest.fixture
def engine(db: Database) -> Engine:
    fill(db)
    db.execute(SCRIPT)
    db.execute(
        "CREATE TABLE made_by_hand (item STRING PRIMARY KEY, price DOUBLE)"
        " WITH (KAFKA_TOPIC='prices', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )
    db.wait()
    return db.engine


def define(engine: Engine, sql: Sequence[str]) -> None:
    """Change the catalog, and carry out none of the effects."""
    for number, text in enumerate(sql, 10):
        (piece,) = parse_text(text)
        given = ConfiguredStatement(piece.statement, piece.text, piece.script, EARLIEST, number)
        engine.definitions = plan_change(given, engine.definitions, engine.replay_environment).after


@pytest.mark.parametrize("count", range(len(CHANGES) + 1))
def test_what_runs_is_what_the_catalog_says(engine: Engine, count: int) -> None:
    define(engine, CHANGES[:count])
    with engine.driver.lock:
        reconcile(engine)
    engine.drain()
    assert set(engine.runtime.query_ids()) == engine.catalog.queries.keys() == engine.queries.keys()
    assert engine.store.query_ids() <= engine.catalog.queries.keys()
    states = engine.runtime.states()
    paused = {id for id, state in states.items() if state is QueryState.PAUSED}
    assert paused == engine.paused == {id for id, run in engine.queries.items() if run.paused}
    assert {id: run.planned for id, run in engine.queries.items()} == engine.plans
    assert not engine.failed


def test_where_nothing_differs_nothing_is_done(engine: Engine) -> None:
    define(engine, CHANGES)
    reconcile(engine)
    runs, positions = dict(engine.queries), engine.log.end_offset("SPENDING", 0)
    reconcile(engine, retry=True)
    assert all(engine.queries[query_id] is run for query_id, run in runs.items())
    assert engine.log.end_offset("SPENDING", 0) == positions


@pytest.mark.parametrize(("kind", "again"), [(UnavailableError, True), (MillstreamError, False)])
def test_a_query_that_cannot_be_started_is_noted(
    engine: Engine,
    kind: type[MillstreamError],
    again: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, wrong = queries.start, [SPENDING]

    def fail(engine: Engine, query_id: str) -> None:
        if query_id in wrong:
            raise kind("not now")
        start(engine, query_id)

    monkeypatch.setattr(queries, "start", fail)
    define(engine, CHANGES)
    reconcile(engine)
    assert engine.failed == {SPENDING: "not now"}
    assert engine.states()[SPENDING] == QueryState.ERROR.value
    assert JAMS not in engine.queries and "CST_PRICES_13" in engine.queries
    wrong.clear()
    reconcile(engine)
    assert SPENDING in engine.failed, "only a retry starts it again"
    reconcile(engine, retry=True)
    assert (SPENDING not in engine.failed) is again

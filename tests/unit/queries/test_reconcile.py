"""What runs in a process is made to match its catalog, whatever was left undone before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from millstream import Database
from millstream.ddl.change import plan_change
from millstream.ddl.environment import ConfiguredStatement
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.queries import starting
from millstream.queries.reconcile import reconcile
from millstream.queries.registry import QueryRegistry
from millstream.runtime.spec import QueryState
from millstream.scripts.text import parse_text
from millstream.service.engine import Engine
from tests.unit.conftest import EARLIEST, fill

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
        engine.registry.definitions = plan_change(
            given, engine.registry.definitions, engine.registry.replay_environment
        ).after


@pytest.mark.parametrize("count", range(len(CHANGES) + 1))
def test_what_runs_is_what_the_catalog_says(engine: Engine, count: int) -> None:
    define(engine, CHANGES[:count])
    with engine.driver.lock:
        reconcile(engine.registry)
    engine.drain()
    assert (
        set(engine.runtime.query_ids())
        == engine.catalog.queries.keys()
        == engine.registry.queries.keys()
    )
    assert engine.store.query_ids() <= engine.catalog.queries.keys()
    states = engine.runtime.states()
    paused = {id for id, state in states.items() if state is QueryState.PAUSED}
    assert (
        paused
        == engine.registry.paused
        == {id for id, run in engine.registry.queries.items() if run.paused}
    )
    assert {id: run.planned for id, run in engine.registry.queries.items()} == engine.registry.plans
    assert not engine.registry.failed


def test_where_nothing_differs_nothing_is_done(engine: Engine) -> None:
    define(engine, CHANGES)
    reconcile(engine.registry)
    runs, positions = dict(engine.registry.queries), engine.log.end_offset("SPENDING", 0)
    reconcile(engine.registry, retry=True)
    assert all(engine.registry.queries[query_id] is run for query_id, run in runs.items())
    assert engine.log.end_offset("SPENDING", 0) == positions


@pytest.mark.parametrize(("kind", "again"), [(UnavailableError, True), (MillstreamError, False)])
def test_a_query_that_cannot_be_started_is_noted(
    engine: Engine,
    kind: type[MillstreamError],
    again: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, wrong = starting.start, [SPENDING]

    def fail(registry: QueryRegistry, query_id: str) -> None:
        if query_id in wrong:
            raise kind("not now")
        start(registry, query_id)

    monkeypatch.setattr(starting, "start", fail)
    define(engine, CHANGES)
    reconcile(engine.registry)
    assert engine.registry.failed == {SPENDING: "not now"}
    assert engine.registry.states()[SPENDING] == QueryState.ERROR.value
    assert JAMS not in engine.registry.queries and "CST_PRICES_13" in engine.registry.queries
    wrong.clear()
    reconcile(engine.registry)
    assert SPENDING in engine.registry.failed, "only a retry starts it again"
    reconcile(engine.registry, retry=True)
    assert (SPENDING not in engine.registry.failed) is again

"""A process killed at any effect of a statement: after the next start the statement is executed
completely or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from millstream.functions.catalogue import builtin_catalogue
from millstream.log.batches import TABLES
from millstream.log.faults import SimulatedCrash
from millstream.log.log import Topic
from millstream.log.simulated import SimulatedLog
from millstream.model.errors import UnavailableError
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.engine import Engine
from millstream.service.execution import execute_script, resume_engine
from millstream.state.store import Store

VISITS = """
CREATE STREAM visits (guest STRING KEY, place STRING)
    WITH (KAFKA_TOPIC='visits', PARTITIONS=1, FORMAT='JSON');
CREATE TABLE places AS SELECT place, COUNT(*) AS n FROM visits GROUP BY place;
INSERT INTO visits VALUES ('ann', 'inn');
"""
STATEMENTS = (
    "DROP TABLE places;",
    "TERMINATE ALL;",
    "CREATE TABLE guests AS SELECT guest, COUNT(*) AS n FROM visits GROUP BY guest;",
    "CREATE STREAM shouted AS SELECT guest, UCASE(place) AS place FROM visits;",
    "CREATE TYPE money AS DECIMAL(10, 2);",
    "CREATE SOURCE TABLE stays (guest STRING PRIMARY KEY, place STRING)"
    " WITH (KAFKA_TOPIC='visits', FORMAT='JSON');",
    "CREATE OR REPLACE TABLE places AS SELECT place, COUNT(*) AS n FROM visits"
    " WHERE guest <> 'bob' GROUP BY place;",
    "PAUSE ALL;",
)
EFFECTS_MAX = 60


@dataclass
class Bomb:
    """Kills the process at the n-th effect."""

    left: int = 0

    def __call__(self, name: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise SimulatedCrash(name)


class Machine:
    """What outlives a process: its log and its state."""

    def __init__(self, bomb: Bomb | None = None) -> None:
        self.bomb = bomb or Bomb()
        self.log: SimulatedLog[pa.Table] = SimulatedLog(TABLES, effect=self.bomb)
        self.store = Store.open(":memory:")
        self.engine = self.start()
        execute(self.engine, VISITS)
        self.engine.drain()

    def start(self) -> Engine:
        settings = EngineSettings()
        return resume_engine(self.log, self.store, settings, lambda: 0, builtin_catalogue())

    def kill_and_start(self) -> None:
        self.bomb.left = 0
        self.engine.runtime.close(commit=False)
        self.engine = self.start()


def execute(engine: Engine, sql: str) -> None:
    for _ in execute_script(engine, sql, Session({"auto.offset.reset": "earliest"})):
        pass


def world(engine: Engine) -> dict[str, Any]:
    """All objects except users' topics: the topic of a sink stays after its creation."""
    internal = engine.settings.internal_prefix
    return {
        "topics": [topic.name for topic in engine.log.topics() if topic.name.startswith(internal)],
        "sources": sorted(engine.catalog.sources),
        "types": sorted(engine.catalog.types),
        "queries": sorted(engine.catalog.queries),
        "plans": [query.statement for _, query in sorted(engine.catalog.queries.items())],
        "paused": sorted(engine.registry.paused),
        "running": sorted(status.query_id for status in engine.statuses()),
        "state": engine.store.query_ids(),
    }


def killed(sql: str) -> Iterator[tuple[int, Machine]]:
    """The number of each effect of a statement, and a machine whose process died at it."""
    for effect in range(1, EFFECTS_MAX):
        machine = Machine()
        machine.bomb.left = effect
        try:
            execute(machine.engine, sql)
        except SimulatedCrash:
            yield effect, machine
        else:
            return
    raise AssertionError("the statement has more effects than that")


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_killed_statement_is_done_or_not_given(sql: str) -> None:
    calm = Machine()
    before = world(calm.engine)
    execute(calm.engine, sql)
    after = world(calm.engine)
    seen = set()
    for effect, machine in killed(sql):
        machine.kill_and_start()
        found = world(machine.engine)
        assert found in (before, after), f"killed at effect {effect}"
        seen.add(found == after)
    assert True in seen


def test_another_statement_can_follow_one_that_was_never_given() -> None:
    """It gets the same offset on the command log, so its query gets the same id."""
    first = (
        "CREATE TABLE t AS SELECT guest, COUNT(*) AS n, MAX(place) AS p FROM visits GROUP BY guest;"
    )
    for _, machine in killed(first):
        machine.kill_and_start()
        if "T" in machine.engine.catalog.sources:
            continue
        execute(
            machine.engine,
            "CREATE TABLE t AS SELECT place, COUNT(guest) AS c FROM visits GROUP BY place;",
        )
        machine.engine.drain()
        assert not [status.error for status in machine.engine.statuses() if status.error]
        (row,) = machine.log.read("T", 0, 0, 9).batch.to_pylist()
        assert row["key"] == b'"inn"'


DROP = "DROP TABLE places DELETE TOPIC;"


def test_a_killed_drop_deletes_its_topic_at_the_next_start() -> None:
    dropped = set()
    for effect, machine in killed(DROP):
        machine.kill_and_start()
        exists = "PLACES" in machine.engine.catalog.sources
        assert (machine.log.topic("PLACES") is not None) == exists, f"killed at effect {effect}"
        dropped.add(not exists)
    assert dropped == {True, False}


def test_a_later_topic_of_the_same_name_is_left_alone() -> None:
    for _, machine in killed(DROP):
        machine.bomb.left = 0
        machine.log.delete_topic("PLACES")
        machine.log.create_topic(Topic("PLACES", 1))
        machine.kill_and_start()
        assert machine.log.topic("PLACES") is not None


@dataclass
class Hiccup(Bomb):
    """The n-th effect fails; the process lives on."""

    def __call__(self, name: str) -> None:
        try:
            super().__call__(name)
        except SimulatedCrash as crash:
            raise UnavailableError(f"{name} failed") from crash


@pytest.mark.parametrize("sql", [sql for sql in STATEMENTS if sql.startswith("CREATE ")])
def test_a_statement_that_fails_on_its_way_leaves_nothing(sql: str) -> None:
    failed = 0
    for effect in range(1, EFFECTS_MAX):
        machine = Machine(Hiccup())
        before = world(machine.engine)
        machine.bomb.left = effect
        try:
            execute(machine.engine, sql)
            break
        except UnavailableError:
            assert world(machine.engine) == before, f"failed at effect {effect}"
            failed += 1
        execute(machine.engine, sql)
        machine.engine.drain()
        assert not [status.error for status in machine.engine.statuses() if status.error]
    assert failed

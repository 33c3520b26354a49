"""Snapshots on changelogs: what is left rebuilds the state, wherever the process dies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from millstream.catalog.source import Format, Source
from millstream.executor.compaction import Pace
from millstream.executor.executor import DuckDBExecutor
from millstream.functions.catalogue import builtin_catalogue
from millstream.log.batches import TABLES
from millstream.log.log import Appended, Topic
from millstream.log.simulated import SimulatedCrash, SimulatedLog
from millstream.model.batch import raw_batch
from millstream.model.expressions import AggregateCall, ColumnRef
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.model.types import BIGINT, INTEGER, STRING
from millstream.plan.nodes import Aggregate, Project, Read, Write
from millstream.runtime.runtime import (
    ExecutorSpec,
    Guarantee,
    QuerySpec,
    QueryState,
    Runtime,
    RuntimeSettings,
)
from millstream.state.store import Store
from millstream.topology.topology import SourceInput, SubTopology

KAFKA, JSON = Format("KAFKA"), Format("JSON")
K, V = Column("K", STRING, Role.KEY), Column("V", INTEGER)
G = Column("G", INTEGER, Role.KEY)
COUNT = AggregateCall("COUNT", 0, (), (), BIGINT)
SOURCE = Source("T", SourceKind.TABLE, Schema((K, V)), "t", KAFKA, JSON)
READ = Read(SOURCE, "", Schema((K, V)), ("K", "V"), SourceKind.TABLE, True)
BY_VALUE = Project(READ, (ColumnRef("V", INTEGER), ColumnRef("V", INTEGER)), Schema((G, V)))
COUNTED = Aggregate(BY_VALUE, (("C", COUNT),), None, False, Schema((G, Column("C", BIGINT))))
SUB = SubTopology(
    0,
    (SourceInput(READ, "t"),),
    Write(COUNTED, "O", "o", KAFKA, JSON, None, None),
    1,
    "o",
    "changes",
)
"""A table counted by its value: rows of its state are added, changed and removed."""
CHANGES = [
    [("a", 1), ("b", 1), ("c", 2)],
    [("a", 2), ("d", 1), ("e", 3)],
    [("b", None), ("f", 3)],
    [("c", 1), ("d", None), ("g", 4)],
    [("a", 5), ("a", 1)],
    [("h", 1), ("e", None)],
] * 2
CURRENT = {"a": 1, "c": 1, "f": 3, "g": 4, "h": 1}
SETTINGS = RuntimeSettings(commit_interval_ms=1)


class Bench:
    """A log that outlives processes, and a disk that may."""

    def __init__(self, guarantee: Guarantee, die_at: int = -1) -> None:
        self.guarantee = guarantee
        self.die_at = die_at
        self.effects = 0
        self.armed = False
        self.log: SimulatedLog[Any] = SimulatedLog(TABLES, effect=self.effect, markers=True)
        for name in ("t", "o", "changes"):
            self.log.create_topic(Topic(name, 1))
        self.producer = self.log.writer("producer")
        self.store = Store.open(":memory:")
        self.executors: list[DuckDBExecutor] = []
        self.now = 0

    def effect(self, _name: str) -> None:
        if not self.armed:
            return
        self.effects += 1
        if self.effects == self.die_at:
            raise SimulatedCrash(_name)

    def start(self) -> None:
        executor = DuckDBExecutor(
            self.store, "Q", SUB, builtin_catalogue(), pace=Pace(fewest=3, piece=4)
        )
        self.executors.append(executor)
        spec = ExecutorSpec(executor, ("t",), 1, "changes", ("o",))
        self.instance: Runtime[Any] = Runtime(self.log, SETTINGS)
        self.instance.add_query(QuerySpec("Q", "Q", (spec,), self.guarantee))

    def restart(self, *, wiped: bool) -> None:
        for executor in self.executors:
            executor.close()
        self.executors.clear()
        if wiped:
            self.store.close()
            self.store = Store.open(":memory:")
        self.start()

    def work(self) -> None:
        """Step until everything is processed and committed."""
        self.armed = True
        for _ in range(400):
            self.now += 1
            self.instance.step(self.now)
            status = self.instance.query_status("Q")
            assert status.state is not QueryState.ERROR, status.error
            idle = status.state is QueryState.RUNNING and not any(status.lag.values())
            if idle and not self.instance._queries["Q"].dirty:
                break
        else:
            raise AssertionError("does not come to rest")
        self.armed = False

    def send(self, changes: list[tuple[str, int | None]]) -> None:
        armed, self.armed = self.armed, False
        rows = [
            (key.encode(), None if value is None else json.dumps({"V": value}).encode(), 1)
            for key, value in changes
        ]
        self.producer.append([Appended("t", 0, raw_batch(rows), len(rows))])
        self.armed = armed

    def play(self, *, wiped: bool) -> None:
        """All changes, a commit after each few; a process that dies is started again."""
        self.start()
        for changes in CHANGES:
            self.send(changes)
            try:
                self.work()
            except SimulatedCrash:
                self.restart(wiped=wiped)
                self.work()

    def state(self) -> dict[str, int]:
        cursor = self.store.cursor()
        rows = cursor.sql(f"SELECT K, V FROM {self.store.table('Q', 0, 'read_0')}").fetchall()
        cursor.close()
        return dict(rows)

    def close(self) -> None:
        for executor in self.executors:
            executor.close()
        self.store.close()


@pytest.fixture(params=list(Guarantee), ids=lambda guarantee: guarantee.name)
def guarantee(request: pytest.FixtureRequest) -> Iterator[Guarantee]:
    yield request.param


def test_changelogs_stay_short_and_rebuild_the_state(guarantee: Guarantee) -> None:
    bench = Bench(guarantee)
    bench.play(wiped=False)
    assert bench.log.start_offset("changes", 0) > 0
    assert bench.state() == CURRENT
    bench.restart(wiped=True)
    bench.work()
    assert bench.state() == CURRENT
    bench.close()


def test_dying_anywhere_loses_nothing(guarantee: Guarantee) -> None:
    whole = Bench(guarantee)
    whole.play(wiped=False)
    whole.close()
    assert whole.effects > 30
    for die_at in range(10, whole.effects + 1, whole.effects // 8):
        bench = Bench(guarantee, die_at)
        bench.play(wiped=die_at % 2 == 0)
        assert bench.state() == CURRENT, die_at
        bench.restart(wiped=True)
        bench.work()
        assert bench.state() == CURRENT, die_at
        bench.close()


def test_a_state_older_than_the_changelog_starts_anew(guarantee: Guarantee) -> None:
    bench = Bench(guarantee)
    bench.start()
    bench.send([("z", 9), *CHANGES[0]])
    bench.work()
    old, bench.store = bench.store, Store.open(":memory:")
    bench.restart(wiped=False)
    bench.send([("z", None)])
    for changes in CHANGES[1:]:
        bench.work()
        bench.send(changes)
    bench.work()
    assert bench.log.start_offset("changes", 0) > 5
    bench.store.close()
    bench.store = old
    bench.restart(wiped=False)
    bench.work()
    assert bench.state() == CURRENT
    bench.close()

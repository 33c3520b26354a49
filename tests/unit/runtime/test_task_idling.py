"""`max.task.idle.ms`: a task with records of one input waits for those of another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from millstream import Database, StatementError
from millstream.log.log import Fetched
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.runtime.spec import Step
from millstream.runtime.task_idling import TaskIdling
from millstream.service.execution import open_engine

IDLE_MS = 1_000
START_MS = 1_700_000_000_000


def read(topic: str, partition: int, count: int, *, end: bool = True) -> Fetched[Any]:
    return Fetched(topic, partition, (), count, count, end)


def counts(idling: TaskIdling, now: int, *reads: Fetched[Any]) -> list[int | str]:
    """What a task gets of its partitions: a number of records, with `+` if more may come."""
    buffer = {(one.topic, one.partition): one for one in reads}
    held = idling.held(buffer, [tuple(buffer)], dict.fromkeys(buffer, 0), now)
    return [one.count if one.end else f"{one.count}+" for one in held.values()]


def test_it_waits_from_when_the_input_was_missed() -> None:
    idling = TaskIdling(IDLE_MS)
    assert counts(idling, 0, read("a", 0, 0), read("b", 0, 0)) == [0, 0]
    assert idling.next_at is None, "nobody waits while there are no records at all"
    assert counts(idling, 50, read("a", 0, 5), read("b", 0, 0)) == [0, 0]
    assert idling.next_at == 50 + IDLE_MS
    assert counts(idling, 49 + IDLE_MS, read("a", 0, 6), read("b", 0, 0)) == [0, 0]
    assert counts(idling, 50 + IDLE_MS, read("a", 0, 6), read("b", 0, 0)) == ["6+", 0]
    assert idling.next_at is None


def test_it_goes_on_without_an_input_until_that_brings_records() -> None:
    idling = TaskIdling(IDLE_MS)
    for now, got in ((0, [0, 0]), (IDLE_MS, ["1+", 0]), (5 * IDLE_MS, ["1+", 0])):
        assert counts(idling, now, read("a", 0, 1), read("b", 0, 0)) == got
    assert counts(idling, 6 * IDLE_MS, read("a", 0, 1), read("b", 0, 1)) == ["1+", "1+"]
    assert idling.next_at is None, "both have records, which are taken in the order of time"
    assert counts(idling, 6 * IDLE_MS, read("a", 0, 1), read("b", 0, 0)) == [0, 0]


def test_it_waits_for_each_of_several_inputs() -> None:
    idling = TaskIdling(IDLE_MS)
    assert counts(idling, 0, read("a", 0, 1), read("b", 0, 0), read("c", 0, 1)) == [0, 0, 0]
    assert counts(idling, 600, read("a", 0, 1), read("b", 0, 0), read("c", 0, 0)) == [0, 0, 0]
    assert idling.next_at == IDLE_MS
    assert counts(idling, IDLE_MS, read("a", 0, 1), read("b", 0, 0), read("c", 0, 0)) == [0, 0, 0]
    assert idling.next_at == 600 + IDLE_MS
    got = counts(idling, 600 + IDLE_MS, read("a", 0, 1), read("b", 0, 0), read("c", 0, 0))
    assert got == ["1+", 0, 0]


def test_partitions_of_one_topic_do_not_wait_for_each_other() -> None:
    """They are channels of one input."""
    idling = TaskIdling(IDLE_MS)
    assert counts(idling, 0, read("a", 0, 1), read("a", 1, 0)) == [1, 0]
    reads = (read("a", 0, 1), read("a", 1, 0), read("b", 0, 1))
    assert counts(idling, 0, *reads) == ["1+", 0, "1+"]


def test_tasks_wait_by_themselves() -> None:
    idling = TaskIdling(IDLE_MS)
    reads = (read("a", 0, 1), read("b", 0, 0), read("a", 1, 1), read("b", 1, 1))
    buffer = {(one.topic, one.partition): one for one in reads}
    tasks = [(("a", 0), ("b", 0)), (("a", 1), ("b", 1))]
    held = idling.held(buffer, tasks, dict.fromkeys(buffer, 0), 0)
    assert [one.count for one in held.values()] == [0, 0, 1, 1]
    assert held["a", 0].next_offset == 0, "it will be read again"
    assert idling.next_at == IDLE_MS


@pytest.mark.parametrize("idle_ms", [0, -1])
def test_without_it_nobody_waits(idle_ms: int) -> None:
    idling = TaskIdling(idle_ms)
    assert counts(idling, 0, read("a", 0, 1), read("b", 0, 0)) == [1, 0]
    assert idling.next_at is None


class Shop:
    """An engine that the test steps, with a stream, a table and a join of both."""

    def __init__(self, idle_ms: int, partitions: int) -> None:
        self.ms = 0
        self.partitions = partitions
        self.engine = open_engine(":memory:", EngineSettings(), lambda: START_MS + self.ms)
        properties = {"auto.offset.reset": "earliest", "max.task.idle.ms": str(idle_ms)}
        self.db = Database(self.engine, Session(properties))
        for kind, name, key in (("STREAM", "s", "KEY"), ("TABLE", "t", "PRIMARY KEY")):
            self.db.execute(
                f"CREATE {kind} {name} (k INT {key}, v INT)"
                f" WITH (KAFKA_TOPIC='{name}', PARTITIONS={partitions}, VALUE_FORMAT='JSON');"
            )
        self.db.execute(
            "CREATE STREAM j AS SELECT s.k, s.v, t.v AS w FROM s LEFT JOIN t ON s.k = t.k;"
        )
        self.advance()

    def insert(self, source: str, value: int, time: int, key: int = 1) -> int:
        """Returns the partition."""
        before = self._ends(source)
        self.db.execute(f"INSERT INTO {source} (ROWTIME, k, v) VALUES ({time}, {key}, {value});")
        pairs = zip(before, self._ends(source), strict=True)
        return [old != new for old, new in pairs].index(True)

    def _ends(self, topic: str) -> list[int]:
        return [self.engine.log.end_offset(topic, number) for number in range(self.partitions)]

    def advance(self, ms: int = 0) -> Step:
        """Let time pass, and everything happen that is to happen then."""
        self.ms += ms
        while (step := self.engine.runtime.step(START_MS + self.ms)).progress:
            pass
        self.engine.runtime.commit(START_MS + self.ms)
        return step

    @property
    def joined(self) -> list[tuple[object, ...]]:
        return [row[1:] for row in self.db.execute("SELECT * FROM j;")]  # type: ignore[union-attr]


@contextmanager
def shop(idle_ms: int, partitions: int = 1) -> Iterator[Shop]:
    made = Shop(idle_ms, partitions)
    with closing(made.engine):
        yield made


def test_a_join_waits_for_the_table() -> None:
    with shop(IDLE_MS) as made:
        made.insert("s", 10, time=200)
        assert made.advance().wake_at == START_MS + IDLE_MS, "nothing is polled meanwhile"
        made.advance(IDLE_MS - 1)
        assert made.joined == []
        made.insert("t", 7, time=100)
        made.advance()
        assert made.joined == [], "the table may have more, and the stream's row is later"
        made.advance(IDLE_MS)
        assert made.joined == [(10, 7)]


def test_after_a_while_it_goes_on_without_the_table() -> None:
    with shop(IDLE_MS) as made:
        made.insert("s", 10, time=200)
        made.advance()
        assert made.joined == []
        made.advance(IDLE_MS)
        assert made.joined == [(10, None)]
        made.insert("s", 11, time=300)
        made.advance()
        assert made.joined == [(10, None), (11, None)], "the wait is over until the table has a row"


def test_a_task_that_waits_does_not_hold_up_another() -> None:
    with shop(IDLE_MS, partitions=2) as made:
        waiting = made.insert("s", 10, time=200)
        key = next(k for k in range(2, 99) if made.insert("s", 11, time=200, key=k) != waiting)
        made.advance()
        made.advance(IDLE_MS)
        assert sorted(made.joined) == [(10, None), (11, None)]
        for time in (300, 500):
            made.insert("t", 7, time=time, key=key)
        made.insert("s", 12, time=400, key=key)
        made.insert("s", 13, time=400)
        made.insert("t", 8, time=100)
        made.advance()
        assert sorted(made.joined)[2:] == [(12, 7)], "the other task has only its table's row"
        made.advance(IDLE_MS)
        assert sorted(made.joined)[2:] == [(12, 7), (13, 8)]


def test_what_is_behind_a_task_that_waits_does_not_run_ahead() -> None:
    """The second join has a row of its table that is later than what waits for the first."""
    with shop(IDLE_MS) as made:
        made.db.execute(
            "CREATE TABLE r (k INT PRIMARY KEY, v INT)"
            " WITH (KAFKA_TOPIC='r', PARTITIONS=1, VALUE_FORMAT='JSON');"
        )
        made.db.execute(
            "CREATE STREAM jj AS SELECT s.v, r.v AS w FROM s LEFT JOIN t ON s.k = t.k"
            " LEFT JOIN r ON s.v = r.k;"
        )
        made.insert("r", 1, time=50, key=10)
        made.advance()
        made.advance(IDLE_MS)
        made.insert("s", 10, time=200)
        made.insert("r", 2, time=300, key=10)
        for _ in range(5):
            made.advance(IDLE_MS)
        assert [row[1] for row in made.db.execute("SELECT * FROM jj;")] == [1]  # type: ignore[union-attr]


def test_a_task_that_waits_goes_on_up_to_a_bound() -> None:
    """Who asks for a state up to these offsets does not wait for records behind them."""
    with shop(IDLE_MS) as made:
        made.insert("s", 10, time=200)
        made.advance()
        (query,) = made.engine.runtime._queries.values()
        assert query.runners.idle_until == START_MS + IDLE_MS
        made.engine.runtime.end_at(query.spec.query_id, {("s", 0): 1, ("t", 0): 0})
        made.advance()
        assert made.joined == [(10, None)]
        assert query.runners.idle_until is None


def test_by_default_a_join_does_not_wait() -> None:
    with shop(0) as made:
        made.insert("s", 10, time=200)
        made.advance()
        made.insert("t", 7, time=100)
        made.advance()
        assert made.joined == [(10, None)]


def test_only_whole_numbers() -> None:
    with shop(0) as made, pytest.raises(StatementError, match="whole number"):
        made.db.execute("SET 'max.task.idle.ms' = 'long';")

"""`idle.window.close.ms`: windows close without a record when all inputs have been idle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from millstream import Database, StatementError
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.runtime.idle_closing import IdleClosing
from millstream.runtime.spec import ExecutorSpec, QuerySpec, Step
from millstream.runtime.subtopology_runners import SubTopologyRunners
from millstream.runtime.tasks import Task, TaskId
from millstream.service.execution import open_engine
from tests.simulation.pure import Disk, PureExecutor
from tests.unit.runtime.queries import COUNT, REKEY

IDLE_MS = 1_000
START_MS = 1_700_000_000_000
TUMBLING = "WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 2 SECONDS)"
COUNTS = "SELECT k, COUNT(*) AS n FROM s {window} GROUP BY k EMIT FINAL"


class Shop:
    """An engine that the test steps, with two streams."""

    def __init__(self, path: str | Path, idle: str, partitions: int, guarantee: str) -> None:
        self.ms = 0
        self.idle = idle
        self.path = path
        self.partitions = partitions
        self.properties = {
            "auto.offset.reset": "earliest",
            "idle.window.close.ms": idle,
            "processing.guarantee": guarantee,
        }
        self.open()
        for name in ("s", "r"):
            self.db.execute(
                f"CREATE STREAM {name} (k INT KEY, v INT)"
                f" WITH (KAFKA_TOPIC='{name}', PARTITIONS={partitions}, VALUE_FORMAT='JSON');"
            )

    def open(self) -> None:
        """Open the database, perhaps again."""
        self.engine = open_engine(self.path, EngineSettings(), lambda: START_MS + self.ms)
        self.db = Database(self.engine, Session(self.properties))

    def insert(self, source: str, *rows: tuple[int, int], key: int = 1) -> None:
        """Rows of a time, in seconds, and a value."""
        for seconds, value in rows:
            time = int(1000 * seconds)
            self.db.execute(
                f"INSERT INTO {source} (ROWTIME, k, v) VALUES ({time}, {key}, {value});"
            )

    def advance(self, ms: int = 0) -> Step:
        """Let time pass, and everything happen that is to happen then."""
        self.ms += ms
        while (step := self.engine.runtime.step(START_MS + self.ms)).progress:
            pass
        self.engine.runtime.commit(START_MS + self.ms)
        while (step := self.engine.runtime.step(START_MS + self.ms)).progress:
            pass
        return step

    def idle_for(self, ms: int) -> None:
        """Let time pass, by and by."""
        for _ in range(10):
            self.advance(ms // 10)

    def written(self, topic: str) -> list[Any]:
        """The values on a topic, in the order of partitions."""
        log = self.engine.log
        found: list[Any] = []
        for number in range(self.partitions):
            batch = log.read(topic, number, 0, 1 << 20).batch.to_pylist()
            found += [(row["timestamp"], json.loads(row["value"])) for row in batch if row["value"]]
        return found

    def counts(self, topic: str) -> list[tuple[int, int]]:
        """The windows on a topic: time and count."""
        return [(time, value["N"]) for time, value in self.written(topic)]

    @property
    def late(self) -> int:
        """Rows that were dropped as late."""
        queries = self.engine.runtime._queries.values()
        return sum(runner.metrics.late for query in queries for runner in query.runners)


@contextmanager
def shop(
    path: str | Path = ":memory:",
    *,
    idle: str = str(IDLE_MS),
    partitions: int = 1,
    guarantee: str = "exactly_once_v2",
) -> Iterator[Shop]:
    made = Shop(path, idle, partitions, guarantee)
    try:
        yield made
    finally:
        made.engine.close()


def test_a_window_closes_when_the_input_is_idle() -> None:
    with shop() as made:
        made.db.execute(f"CREATE TABLE o AS {COUNTS.format(window=TUMBLING)};")
        made.insert("s", (1, 1), (3, 1))
        step = made.advance()
        assert made.counts("O") == []
        assert step.wake_at is not None and step.wake_at - START_MS <= IDLE_MS + 200
        made.advance(IDLE_MS - 1)
        assert made.counts("O") == [], "it has not been idle for long enough"
        made.advance(IDLE_MS)
        assert made.counts("O") == [(3000, 2)]
        assert made.advance(10 * IDLE_MS).wake_at is None, "there is nothing left to wait for"
        assert made.counts("O") == [(3000, 2)]


def test_what_comes_later_is_late_and_counted() -> None:
    with shop() as made:
        made.db.execute(f"CREATE TABLE o AS {COUNTS.format(window=TUMBLING)};")
        made.insert("s", (1, 1))
        made.idle_for(3 * IDLE_MS)
        made.insert("s", (9, 1), (10, 1))
        made.advance()
        assert made.late == 1
        made.idle_for(3 * IDLE_MS)
        assert made.counts("O") == [(1000, 1), (10000, 1)]


def test_an_input_that_is_not_idle_keeps_windows_open() -> None:
    with shop(partitions=2) as made:
        made.db.execute(f"CREATE TABLE o AS {COUNTS.format(window=TUMBLING)};")
        made.insert("s", (1, 1), key=1)
        for _ in range(9):
            made.insert("s", (2, 1), key=5)
            made.advance(IDLE_MS // 2)
        assert made.counts("O") == []
        made.idle_for(2 * IDLE_MS)
        assert sorted(made.counts("O")) == [(1000, 1), (2000, 9)]


def test_by_default_windows_wait_for_a_record() -> None:
    with shop(idle="never") as made:
        made.db.execute(f"CREATE TABLE o AS {COUNTS.format(window=TUMBLING)};")
        made.insert("s", (1, 1))
        assert made.advance().wake_at is None
        made.advance(1_000_000)
        assert made.counts("O") == []


@pytest.mark.parametrize(
    ("window", "rows", "expected"),
    [
        (
            "WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 5 SECONDS)",
            [(1, 1), (7, 1), (12, 1)],
            [(7000, 2), (12000, 2), (12000, 1)],
        ),
        ("WINDOW SESSION (5 SECONDS)", [(1, 1), (3, 1), (20, 1)], [(3000, 2), (20000, 1)]),
        (
            "WINDOW SESSION (5 SECONDS, GRACE PERIOD 10 SECONDS)",
            [(20, 1), (12, 1), (16, 1)],
            [(20000, 3)],
        ),
    ],
)
@pytest.mark.parametrize("forgetful", ["true", "false"])
def test_every_kind_of_window(
    window: str, rows: list[tuple[int, int]], expected: list[Any], forgetful: str
) -> None:
    with shop() as made:
        made.db.execute(f"SET 'millstream.emit.final.forgetful' = '{forgetful}';")
        made.db.execute(f"CREATE TABLE o AS {COUNTS.format(window=window)};")
        made.insert("s", *rows)
        made.idle_for(3 * IDLE_MS)
        assert made.counts("O") == expected
        made.insert("s", (1, 1), (12, 1))
        made.idle_for(3 * IDLE_MS)
        assert made.counts("O") == expected
        assert made.late


JOIN = "SELECT s.k, s.v AS v, r.v AS w FROM s {kind} JOIN r WITHIN 5 SECONDS {grace} ON s.k = r.k"


def pairs(made: Shop, topic: str) -> list[tuple[int | None, int | None]]:
    return [(value["V"], value["W"]) for _, value in made.written(topic)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("LEFT", [(1, None)]), ("FULL OUTER", [(1, None), (None, 2)]), ("RIGHT", [(None, 2)])],
)
def test_an_outer_join_releases_rows_without_a_match(kind: str, expected: list[Any]) -> None:
    with shop() as made:
        join = JOIN.format(kind=kind, grace="GRACE PERIOD 1 SECONDS")
        columns = "ROWKEY" if kind == "FULL OUTER" else "s.k"
        made.db.execute(f"CREATE STREAM o AS {join.replace('s.k,', f'{columns} AS k,')};")
        made.insert("s", (1, 1))
        made.insert("r", (7, 2))
        made.advance()
        assert made.written("O") == []
        made.idle_for(3 * IDLE_MS)
        assert sorted(pairs(made, "O"), key=str) == sorted(expected, key=str)
        assert made.advance(IDLE_MS).wake_at is None
        made.insert("s", (1, 3))
        made.advance()
        waits = (3, None) not in pairs(made, "O")
        assert waits == (kind == "RIGHT"), "stream time has passed the end of its window"


def test_a_join_with_a_match_releases_nothing_more() -> None:
    with shop() as made:
        made.db.execute(
            f"CREATE STREAM o AS {JOIN.format(kind='LEFT', grace='GRACE PERIOD 1 SECONDS')};"
        )
        made.insert("s", (1, 1))
        made.insert("r", (2, 2))
        made.idle_for(3 * IDLE_MS)
        assert pairs(made, "O") == [(1, 2)]


TWICE = f"""SELECT s.v AS v, COUNT(*) AS n FROM s LEFT JOIN r
    WITHIN 5 SECONDS GRACE PERIOD 1 SECONDS ON s.k = r.k {TUMBLING} GROUP BY {{by}} EMIT FINAL"""


@pytest.mark.parametrize("by", ["s.v", "s.k"])
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_rows_that_a_join_holds_back_are_in_their_window(
    by: str, guarantee: str, partitions: int
) -> None:
    """Behind a repartition, and in the same sub-topology."""
    with shop(partitions=partitions, guarantee=guarantee) as made:
        sql = TWICE.format(by=by)
        if by == "s.k":
            sql = sql.replace("s.v AS v", "s.k AS k")
        made.db.execute(f"CREATE TABLE o AS {sql};")
        for key in (1, 2, 3):
            made.insert("s", (1, 7), (2, 7), (11, 7), key=key)
        made.insert("r", (1, 7), key=2)
        made.idle_for(6 * IDLE_MS)
        assert made.late == 0
        total = sum(count for _, count in made.counts("O"))
        assert total == 9
        windows = 2 if by == "s.v" else 6
        assert len(made.counts("O")) == windows


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_windows_behind_a_repartition_close(guarantee: str) -> None:
    with shop(partitions=3, guarantee=guarantee) as made:
        counts = COUNTS.format(window=TUMBLING).replace("k,", "v,").replace("BY k", "BY v")
        made.db.execute(f"CREATE TABLE o AS {counts};")
        for key in range(6):
            made.insert("s", (1, key % 2), (2, key % 2), key=key)
        made.idle_for(4 * IDLE_MS)
        assert sorted(made.counts("O")) == [(2000, 6), (2000, 6)]


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_after_a_crash_between_the_decision_and_its_commit(tmp_path: Path, guarantee: str) -> None:
    with shop(tmp_path / "db", guarantee=guarantee) as made:
        made.db.execute(f"CREATE TABLE o AS {COUNTS.format(window=TUMBLING)};")
        made.insert("s", (1, 1), (2, 1))
        made.advance()
        made.advance(200)
        (query,) = made.engine.runtime._queries.values()
        before = query.metrics.runs
        while query.metrics.runs == before:
            made.ms += 50
            made.engine.runtime.step(START_MS + made.ms)
        assert query.dirty, "windows are closed, but not committed"
        query.dirty = False  # A process that dies commits nothing.
        made.engine.close()
        made.open()
        made.insert("s", (3, 1))
        made.idle_for(3 * IDLE_MS)
        assert made.counts("O")[-1] == (3000, 3)
        assert made.late == 0
        assert len(made.counts("O")) == 1


def test_the_decision_is_restored_from_the_changelog(tmp_path: Path) -> None:
    with shop(tmp_path / "db") as made:
        made.db.execute(f"CREATE TABLE o AS {COUNTS.format(window=TUMBLING)};")
        made.insert("s", (1, 1), (2, 1))
        made.idle_for(3 * IDLE_MS)
        made.engine.close()
        for file in tmp_path.glob("*.state*"):
            file.unlink()
        made.open()
        made.insert("s", (3, 1), (11, 1))
        made.idle_for(3 * IDLE_MS)
        assert made.late == 1
        assert made.counts("O") == [(2000, 2), (11000, 1)]


def test_closing_is_the_same_as_a_record_of_that_time() -> None:
    """The same rows, and the same rows late, as with a record that closes the windows."""
    outputs = []
    for idle in (str(IDLE_MS), "never"):
        with shop(idle=idle) as made:
            window = "WINDOW HOPPING (SIZE 4 SECONDS, ADVANCE BY 1 SECONDS)"
            made.db.execute(f"CREATE TABLE o AS {COUNTS.format(window=window)};")
            made.insert("s", *((n, 1) for n in (3, 1, 4, 1, 5, 9, 2, 6)))
            made.idle_for(3 * IDLE_MS)
            if idle == "never":
                made.insert("s", (13, 1), key=99)
                made.advance()
            made.insert("s", (10, 1), (12, 1), (14, 1), (40, 1))
            made.advance()
            outputs.append((made.written("O"), made.late))
    assert outputs[0][1] == outputs[1][1] > 0
    ends = [time for time, _ in outputs[0][0]]
    assert ends.count(14000) == 4
    known = [row for row in outputs[1][0] if row[0] != 13000]
    assert outputs[0][0] == known


def test_failing_rows_are_reported_and_the_others_released() -> None:
    with shop() as made:
        counts = COUNTS.format(window=TUMBLING).replace("COUNT(*)", "10 / (SUM(v) - 1)")
        made.db.execute(f"CREATE TABLE o AS {counts};")
        made.insert("s", (1, 1), key=1)
        made.insert("s", (1, 3), key=2)
        made.idle_for(3 * IDLE_MS)
        assert sorted(str(value["N"]) for _, value in made.written("O")) == ["5", "None"]


def test_push_queries_close_windows_too() -> None:
    with shop() as made:
        made.insert("s", (1, 1), (2, 1))
        with closing(made.db.execute(f"{COUNTS.format(window=TUMBLING)};")) as rows:
            made.idle_for(3 * IDLE_MS)
            assert next(iter(rows))[-1] == 2


@pytest.mark.parametrize("value", ["0", "-1", "soon", "1.5", "", "1e3", str(1 << 63)])
def test_other_values_are_refused(value: str) -> None:
    with shop() as made, pytest.raises(StatementError, match="milliseconds above 0, or never"):
        made.db.execute(f"SET 'idle.window.close.ms' = '{value}';")


def test_describe_shows_it() -> None:
    with shop() as made:
        made.db.execute(f"CREATE TABLE o AS {COUNTS.format(window=TUMBLING)};")
        (query,) = made.engine.runtime.query_ids()
        shown = [tuple(row) for row in made.db.execute(f"EXPLAIN {query};")]
        assert any("idle.window.close.ms" in str(row) for row in shown)


def test_not_in_order_of_arrival() -> None:
    with shop() as made:
        made.db.execute("SET 'millstream.input.order' = 'arrival';")
        with pytest.raises(StatementError, match="cannot close windows when it is idle"):
            made.db.execute(f"CREATE TABLE o AS {COUNTS.format(window=TUMBLING)};")


def test_windows_behind_rows_that_others_may_hold_back_do_not_close() -> None:
    """Only while all tasks of the sub-topology before are open here."""
    jobs = (replace(REKEY, changelog="before"), COUNT)
    executors = tuple(
        ExecutorSpec(
            PureExecutor(job, 2, Disk(), Random(1), 0.0),
            job.inputs,
            2,
            outputs=(job.target,),
            holds_results=True,
        )
        for job in jobs
    )
    spec = QuerySpec(
        "Q", "Q", executors, repartitions=frozenset({"rep"}), idle_window_close_ms=IDLE_MS
    )
    runners = SubTopologyRunners[Any](spec)
    before, behind = runners
    idle = IdleClosing(spec, runners)
    behind.open_windows = True
    before.tasks = {0: Task(TaskId(0, 0))}
    assert idle.due_at(5) is None
    before.tasks |= {1: Task(TaskId(0, 1))}
    assert idle.due_at(5) == 5 + IDLE_MS
    before.tasks.clear()
    before.open_windows, behind.open_windows = True, False
    assert idle.due_at(5) == 5 + IDLE_MS, "nothing comes before it"

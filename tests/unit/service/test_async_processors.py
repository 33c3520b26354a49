"""Processors that wait: many records at the same time, with rows in the order of the records."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream
from millstream import AsyncContext, AsyncProcessor, Database, EngineSettings, KeyValueStore, Record
from millstream.runtime.spec import QueryState, Step
from millstream.testing import TopologyTestDriver
from tests.draws import draws

SQL = """
CREATE STREAM numbers (id STRING KEY, n INT)
  WITH (kafka_topic='numbers', partitions={partitions}, value_format='JSON');
CREATE STREAM out AS SELECT * FROM PROCESS(numbers, '{name}');
"""
BASE = 1_700_000_000_000
WRONG = 13


class Waits:
    """How many calls of one class wait at the same time, and in which order they end."""

    def __init__(self) -> None:
        self.waiting = 0
        self.most = 0
        self.of_key: dict[Any, int] = defaultdict(int)
        self.ended: list[int] = []

    async def wait(self, key: Any, n: int) -> None:
        """Let others run, those with small numbers longest."""
        self.waiting += 1
        self.of_key[key] += 1
        self.most = max(self.most, self.waiting)
        assert key is None or self.of_key[key] == 1, "one record of a key at a time"
        for _ in range(20 - n % 20):
            await asyncio.sleep(0)
        self.ended.append(n)
        self.of_key[key] -= 1
        self.waiting -= 1


class Summing(AsyncProcessor):
    """Running sums, told after a while; schedules say how many keys there are."""

    output = "id STRING KEY, total INT, calls INT"
    concurrency = 4

    def __init__(self) -> None:
        self.waits = Waits()

    async def init(self, context: AsyncContext) -> None:
        await asyncio.sleep(0)
        self.context = context
        self.sums = context.store("sums", KeyValueStore("STRING", "INT"))
        context.schedule(dt.timedelta(milliseconds=3), millstream.STREAM_TIME, self.look)

    async def process(self, record: Record) -> None:
        n, before = record.value["N"], self.sums.get(record.key, 0)
        if n % 2:
            self.sums.put(record.key, before + n)
        await self.waits.wait(record.key, n)
        self.sums.put(record.key, before + n)
        self.context.forward(record.key, {"TOTAL": before + n})
        if n == WRONG:
            raise ValueError("unlucky 13")

    async def look(self, time: dt.datetime) -> None:
        assert not self.waits.waiting, "all records before the schedule have been processed"
        await asyncio.sleep(0)
        for key, total in self.sums.range():
            self.context.forward(key, {"TOTAL": total, "CALLS": 1})


def opened(
    supplier: Callable[[], AsyncProcessor],
    name: str,
    *,
    batch: int = 1_000,
    partitions: int = 1,
    path: str = ":memory:",
    handler: str = "fail",
) -> Database:
    db = millstream.connect(
        path,
        functions=[millstream.processor(supplier, name=name)],
        settings=EngineSettings(max_batch_records=batch),
        properties={"auto.offset.reset": "earliest", "processing.exception.handler": handler},
    )
    if not db.engine.catalog.sources:
        db.execute(SQL.format(name=name, partitions=partitions))
    return db


def put(db: Database, numbers: list[tuple[str | None, int]]) -> None:
    db.execute("PAUSE ALL;")
    db.insert(
        "numbers", [{"id": k, "n": n, "ROWTIME": BASE + at} for at, (k, n) in enumerate(numbers)]
    )
    db.execute("RESUME ALL;")
    db.wait()


def rows(db: Database) -> list[tuple[Any, ...]]:
    return list(db.execute("SELECT * FROM out"))  # type: ignore[arg-type]


def expected(numbers: list[tuple[str, int]]) -> list[tuple[Any, ...]]:
    """What a plain loop makes."""
    sums: dict[str, int] = {}
    found: list[tuple[Any, ...]] = []
    due = 3
    for at, (key, n) in enumerate(numbers):
        if n != WRONG:
            sums[key] = sums.get(key, 0) + n
            found.append((key, sums[key], None))
        if at >= due:
            due = at + 3
            found += [(each, sums[each], 1) for each in sorted(sums)]
    return found


NUMBERS = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([1, 2, 7, WRONG])),
    min_size=1,
    max_size=40,
)


@settings(max_examples=draws(40), deadline=None)
@given(NUMBERS, st.integers(1, 50))
def test_rows_are_those_of_a_plain_loop_whatever_the_batches(
    numbers: list[tuple[str, int]], batch: int
) -> None:
    with opened(Summing, "Summing", batch=batch, handler="continue") as db:
        put(db, list(numbers))
        found, problems = rows(db), db.processing_log().to_pylist()
    assert found == expected(numbers)
    assert len(problems) == sum(n == WRONG for _, n in numbers)


def test_calls_wait_at_the_same_time_and_end_in_any_order() -> None:
    made: list[Summing] = []

    def supplier() -> Summing:
        made.append(Summing())
        return made[-1]

    with opened(supplier, "Summing") as db:
        put(db, [(f"k{n}", n) for n in range(12)])
        assert [row[1] for row in rows(db) if row[2] is None] == list(range(12))
    (waits,) = (each.waits for each in made if each.waits.ended)
    assert 1 < waits.most <= Summing.concurrency
    assert waits.ended != sorted(waits.ended)


class Many(AsyncProcessor):
    output = "id STRING KEY, n INT"
    concurrency = 500
    waiting = 0
    most = 0

    async def init(self, context: AsyncContext) -> None:
        self.context = context

    async def process(self, record: Record) -> None:
        type(self).waiting += 1
        type(self).most = max(self.most, self.waiting)
        await asyncio.sleep(0.01)
        type(self).waiting -= 1
        self.context.forward(record.key, {"N": threading.active_count()})


def test_five_hundred_in_flight_need_no_thread_each() -> None:
    with opened(Many, "Many") as db:
        before = threading.active_count()
        put(db, [(None, n) for n in range(2_000)])
        threads = {row[1] for row in rows(db)}
    assert Many.most == 500
    assert max(threads) <= before + 2


def test_runs_stay_large_enough_however_long_the_calls_take() -> None:
    with opened(Many, "Many", partitions=2) as db:
        (query,) = db.engine.catalog.queries
        runner = db.engine.runtime._queries[query]
        assert runner.settings.max_batch_records == 1_000, "the most of a run in this test"
    with opened(Many, "Many", partitions=2, batch=100_000) as db:
        (query,) = db.engine.catalog.queries
        runtime = db.engine.runtime
        for _ in range(10):
            step = Step(True, 0, records=4_000, called_ms=60_000)
            runtime.pace(query, step, took_ms=60_000, cpu_ms=10)
        assert runtime._queries[query].settings.max_batch_records == 4 * 2 * Many.concurrency


def test_runs_become_large_if_the_calls_are_short_however_long_the_rest_takes() -> None:
    with opened(Many, "Many", batch=10_000) as db:
        (query,) = db.engine.catalog.queries
        runtime = db.engine.runtime
        for _ in range(10):
            records = runtime._queries[query].settings.max_batch_records
            step = Step(True, 0, records=records, called_ms=1)
            runtime.pace(query, step, took_ms=400, cpu_ms=200)
        assert runtime._queries[query].settings.max_batch_records == 10_000


def test_tasks_of_several_partitions_wait_at_the_same_time() -> None:
    class Meeting(AsyncProcessor):
        """Each record waits for one of the other partition."""

        output = "id STRING KEY, n INT"
        here: ClassVar[set[int]] = set()

        async def init(self, context: AsyncContext) -> None:
            self.context = context

        async def process(self, record: Record) -> None:
            Meeting.here.add(record.partition)
            while len(Meeting.here) < 2:
                await asyncio.sleep(0)
            self.context.forward(record.key, {"N": record.partition})

    with opened(Meeting, "Meeting", partitions=2) as db:
        put(db, [(f"k{n}", n) for n in range(8)])
        assert {row[1] for row in rows(db)} == {0, 1}


def test_state_survives_and_the_processor_is_closed_in_its_loop(tmp_path: Path) -> None:
    path, closed = str(tmp_path / "a.db"), []

    class Told(Summing):
        async def init(self, context: AsyncContext) -> None:
            await super().init(context)
            self.loop = asyncio.get_running_loop()

        async def close(self) -> None:
            assert asyncio.get_running_loop() is self.loop
            closed.append(self)

    for n in range(3):
        with opened(Told, "Summing", path=path) as db:
            db.insert("numbers", [{"id": "a", "n": 2 + n}])
            db.wait()
            found = [row[1] for row in rows(db) if row[2] is None]
    assert found == [2, 5, 9]
    assert len(closed) == 6, "each time one to learn its stores, and one that processed"


class Failing(AsyncProcessor):
    output = "id STRING KEY, n INT"
    concurrency = 3
    timeout = dt.timedelta(milliseconds=20)

    def __init__(self) -> None:
        self.cancelled = 0

    async def init(self, context: AsyncContext) -> None:
        self.context = context

    async def process(self, record: Record) -> None:
        n = record.value["N"]
        if n == 1:
            raise LookupError("one")
        if n == 2:
            await asyncio.Event().wait()
        if n == 3:
            raise asyncio.CancelledError("three")
        self.context.forward(record.key, {"N": n})


@pytest.mark.parametrize(
    ("n", "message"), [(1, "LookupError: one"), (2, "TimeoutError"), (3, "CancelledError")]
)
def test_an_exception_stops_the_query_at_its_record(n: int, message: str) -> None:
    with opened(Failing, "Failing") as db:
        put(db, [("a", 5), ("b", 6), ("c", n), ("d", 7)])
        (status,) = db.engine.statuses()
        assert status.state is QueryState.ERROR
        assert message in str(status.error) and "offset 2 of topic numbers" in str(status.error)
        assert rows(db) == []


def test_those_that_fail_are_skipped() -> None:
    with opened(Failing, "Failing", handler="continue") as db:
        put(db, [("a", 5), ("b", 1), ("b", 6), ("c", 2), ("c", 3), ("d", 7)])
        assert rows(db) == [("a", 5), ("b", 6), ("d", 7)]
        told = [
            (p["offset"], p["message"].splitlines()[-1]) for p in db.processing_log().to_pylist()
        ]
    assert [offset for offset, _ in told] == [1, 3, 4]
    assert [text.split(":")[0] for _, text in told] == [
        "LookupError",
        "TimeoutError",
        "asyncio.exceptions.CancelledError",
    ]


def test_what_is_forwarded_too_late_is_an_error() -> None:
    late: list[BaseException] = []

    class Late(AsyncProcessor):
        output = "id STRING KEY, n INT"

        async def init(self, context: AsyncContext) -> None:
            self.context = context
            with pytest.raises(RuntimeError, match="not for init"):
                context.forward("a", {"N": 1})

        async def process(self, record: Record) -> None:
            if record.value["N"] == 1:
                self.task = asyncio.create_task(self.later())
            else:
                await self.task

        async def later(self) -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            try:
                self.context.forward("late", {"N": 1})
            except RuntimeError as error:
                late.append(error)

    with opened(Late, "Late") as db:
        put(db, [("a", 1), ("a", 2)])
        assert rows(db) == []
    assert "after the end of the call" in str(late[0])


def test_it_runs_where_an_event_loop_runs_already() -> None:
    async def main() -> list[Any]:
        driver = TopologyTestDriver(
            SQL.format(name="Summing", partitions=1), functions=[millstream.processor(Summing)]
        )
        with driver:
            driver.pipe("numbers", [{"id": "a", "n": 2}])
            return [record.value["TOTAL"] for record in driver.read("out")]

    assert asyncio.run(main()) == [2]


def test_a_process_that_is_async_needs_the_class_for_it() -> None:
    class Wrong(millstream.Processor):
        output = "n INT"

        async def process(self, record: Record) -> None:  # type: ignore[override]
            pass

    class Idle(AsyncProcessor):
        output = "n INT"
        concurrency = 0

    with pytest.raises(
        millstream.StatementError, match=r"derive it from millstream\.AsyncProcessor"
    ):
        millstream.processor(Wrong)
    with pytest.raises(millstream.StatementError, match="concurrency is below 1"):
        millstream.processor(Idle)


def test_explain_says_how() -> None:
    with opened(Summing, "Summing") as db:
        (query,) = db.engine.catalog.queries
        shown = db.execute(f"EXPLAIN {query};").fetchall()  # type: ignore[union-attr]
    assert "Process SUMMING [Python, row by row, awaited]" in str(shown)

"""The order of what a processor is called for, whatever the batches and restarts."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.functions.function import OutputColumn
from millstream.model.event_time import LATEST
from millstream.model.types import Primitive
from millstream.processors.processor import STREAM_TIME, Processor, Record
from millstream.processors.running import (
    Context,
    Forwarded,
    Output,
    ProcessorError,
    TaskProcessor,
    Times,
)
from millstream.processors.stores import KeyValueStore, TaskStores
from millstream.processors.times import as_time
from tests.unit.processors.test_stores import Table

SECOND = dt.timedelta(seconds=1)
OUTPUT = Output(
    (
        OutputColumn("K", Primitive.STRING, key=True),
        OutputColumn("SEEN", Primitive.TIMESTAMP, key=False),
        OutputColumn("COUNT", Primitive.BIGINT, key=False),
    )
)


class Silence(Processor):
    """A row for each key that has sent nothing for three seconds, looked for each second, and a
    count of the records for each five."""

    def init(self, context: Any) -> None:
        self.context = context
        self.seen = context.store("seen", KeyValueStore("STRING", "TIMESTAMP"))
        self.count = context.store("count", KeyValueStore("BOOLEAN", "BIGINT"))
        context.schedule(SECOND, STREAM_TIME, self.look)
        context.schedule(5 * SECOND, STREAM_TIME, self.report)

    def process(self, record: Record) -> None:
        self.seen.put(record.key, record.timestamp)
        self.count.put(True, self.count.get(True, 0) + 1)

    def look(self, time: dt.datetime) -> None:
        for key, seen in self.seen.range():
            if time - seen >= 3 * SECOND:
                self.context.forward(key, {"SEEN": seen})
                self.seen.delete(key)

    def report(self, time: dt.datetime) -> None:
        count = self.count.get(True)
        self.context.forward(None, {"COUNT": count}, timestamp=time - SECOND)


def opened(tables: dict[str, Table], times: Times) -> TaskProcessor:
    return TaskProcessor(
        Silence, 3, lambda name, _: tables.setdefault(name, Table()), OUTPUT, times
    )


def shown(made: Forwarded) -> list[tuple[Any, ...]]:
    rows = zip(*[iter(made.values)] * 3, strict=True)
    return list(zip(rows, made.times_ms, strict=True))


def run(task: TaskProcessor, records: list[Record]) -> Forwarded:
    return task.run(records, [record.key for record in records])


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9_000)), max_size=30),
    st.lists(st.sampled_from(["cut", "restart", "fail", ""]), min_size=30, max_size=30),
)
def test_batches_restarts_and_failures_change_nothing(
    input_: list[tuple[str, int]], cuts: list[str]
) -> None:
    records = [Record(key, {}, ms, 3) for key, ms in input_]
    whole = shown(run(opened({}, Times()), records))
    tables: dict[str, Table] = {}
    task, times, batch, found = opened(tables, Times()), Times(), [], []
    for record, cut in zip(records, [*cuts[: len(records) - 1], "cut"], strict=False):
        batch.append(record)
        if cut == "fail":
            # The batch is run, and everything it has changed is given up.
            run(task, batch)
            task = opened(tables, times)
        if cut in ("cut", "restart"):
            found += shown(run(task, batch))
            for name, store in task.stores.named.items():
                tables[name].write(store)
            times, batch = task.times, []
        if cut == "restart":
            task = opened(tables, times)
    assert found == whole


def test_the_times_of_schedules() -> None:
    called: list[tuple[str, int]] = []

    class Rhythms(Processor):
        def init(self, context: Any) -> None:
            self.context = context
            self.fast = context.schedule(SECOND, STREAM_TIME, self.noted("fast"))
            self.slow = context.schedule(2 * SECOND, STREAM_TIME, self.noted("slow"))

        def noted(self, name: str) -> Callable[[dt.datetime], None]:
            def note(time: dt.datetime) -> None:
                called.append((name, round((time - as_time(0)) / SECOND)))
                if time >= as_time(9_000):
                    self.fast.cancel()

            return note

        def process(self, record: Record) -> None:
            called.append((record.key, record.timestamp_ms // 1000))

    task = TaskProcessor(Rhythms, 0, lambda *_: Table(), OUTPUT, Times())
    assert task.context.stream_time is None
    run(task, [Record("r", {}, 1000 * second, 0) for second in (1, 2, 1, 3, 8, 9, 20)])
    assert called == [
        *[("r", 1), ("r", 2), ("fast", 2)],
        # A late record moves nothing. Of those that are due at once, the first made comes first.
        *[("r", 1), ("r", 3), ("fast", 3), ("slow", 3)],
        # Several intervals have passed: one call, that which is due first before.
        *[("r", 8), ("fast", 8), ("slow", 8)],
        *[("r", 9), ("fast", 9), ("slow", 9)],
        *[("r", 20), ("slow", 20)],
    ]
    assert task.context.stream_time == as_time(20_000)
    # That one is cancelled is remembered.
    again = TaskProcessor(Rhythms, 0, lambda *_: Table(), OUTPUT, task.times)
    del called[:]
    run(again, [Record("r", {}, 30_000, 0)])
    assert called == [("r", 30), ("slow", 30)]


def test_a_schedule_that_is_new_begins_where_the_task_is() -> None:
    task = opened({}, Times(10_000, (10_500,)))
    assert task.times == Times(10_000, (10_500, 15_000))


class Wrong(Processor):
    """Does one wrong thing."""

    wrong: Callable[[Wrong], Any]

    def init(self, context: Any) -> None:
        self.context = context
        self.store = context.store("s", KeyValueStore("STRING", "BIGINT"))
        context.schedule(SECOND, STREAM_TIME, lambda _: self.punctuated())

    def process(self, record: Record) -> None:
        if record.key == "wrong":
            type(self).wrong(self)

    def punctuated(self) -> None:
        raise LookupError("late")


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        (lambda self: 1 / 0, ZeroDivisionError, "division"),
        (lambda self: self.store.put("a", "x"), TypeError, "takes a int"),
        (lambda self: self.context.forward("a", {"N": 1}), ValueError, "no value column 'N'"),
        (lambda self: self.context.forward("a", {"COUNT": "x"}), ValueError, "column COUNT: 'x'"),
        (lambda self: self.context.forward(("a", "b"), {}), ValueError, "column K"),
        (lambda self: self.context.forward(1, {}), ValueError, "column K: 1 is a int"),
        (
            lambda self: self.context.store("t", KeyValueStore("STRING", "STRING")),
            RuntimeError,
            "only init may call store",
        ),
        (
            lambda self: self.context.schedule(SECOND, STREAM_TIME, print),
            RuntimeError,
            "only init may call schedule",
        ),
    ],
)
def test_what_user_code_raises(
    wrong: Callable[[Wrong], Any], kind: type[Exception], words: str
) -> None:
    made = type("Made", (Wrong,), {"wrong": staticmethod(wrong)})
    task = TaskProcessor(made, 0, lambda *_: Table(), OUTPUT, Times())
    with pytest.raises(ProcessorError) as raised:
        run(task, [Record("well", {}, 0, 0), Record("wrong", {}, 0, 0)])
    assert (raised.value.place, raised.value.method) == (1, "process")
    assert isinstance(raised.value.__cause__, kind) and words in str(raised.value.__cause__)


def test_what_a_schedule_raises() -> None:
    task = TaskProcessor(Wrong, 0, lambda *_: Table(), OUTPUT, Times())
    with pytest.raises(ProcessorError) as raised:
        run(task, [Record("", {}, at, 0) for at in (0, 999, 1000)])
    assert (raised.value.place, raised.value.method) == (2, "punctuate")
    assert isinstance(raised.value.__cause__, LookupError)


@pytest.mark.parametrize("twice", [True, False])
def test_what_init_may_not_do(twice: bool) -> None:
    class Bad(Processor):
        def init(self, context: Any) -> None:
            if twice:
                for _ in range(2):
                    context.store("s", KeyValueStore("STRING", "STRING"))
            context.forward(None, {})

    with pytest.raises(ValueError if twice else RuntimeError):
        TaskProcessor(Bad, 0, lambda *_: Table(), OUTPUT, Times())


@pytest.mark.parametrize("interval", [dt.timedelta(), -SECOND, dt.timedelta(microseconds=999)])
def test_intervals_that_never_pass(interval: dt.timedelta) -> None:
    class Bad(Processor):
        def init(self, context: Any) -> None:
            context.schedule(interval, STREAM_TIME, print)

    with pytest.raises(ValueError, match="a millisecond or more"):
        TaskProcessor(Bad, 0, lambda *_: Table(), OUTPUT, Times())


def test_a_processor_needs_process() -> None:
    task = TaskProcessor(Processor, 0, lambda *_: Table(), OUTPUT, Times())
    with pytest.raises(ProcessorError) as raised:
        run(task, [Record(None, {}, 0, 0)])
    assert "has no method process" in str(raised.value.__cause__)


def test_stream_time_is_that_of_the_record_and_stores_end_with_the_task() -> None:
    class Told(Processor):
        def init(self, context: Any) -> None:
            self.context = context
            self.store = context.store("s", KeyValueStore("STRING", "BIGINT"))

        def process(self, record: Record) -> None:
            seen.append(self.context.stream_time)
            self.store.put("a", 1)

        def close(self) -> None:
            self.store.get("a")

    seen: list[Any] = []
    task = TaskProcessor(Told, 0, lambda *_: Table(), OUTPUT, Times())
    run(task, [Record("", {}, ms, 0) for ms in (5, 9, 7)])
    assert seen == [as_time(5), as_time(9), as_time(9)]
    task.close()
    store = task.stores.named["s"]
    calls: list[Callable[[], object]] = [
        lambda: store.get("a"),
        lambda: store.put("a", 2),
        lambda: store.delete("a"),
        lambda: store.put_if_absent("a", 2),
        lambda: list(store.range()),
        lambda: list(store.range("a")),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="the store is closed"):
            call()


def test_a_value_that_makes_up_what_it_lacks_is_no_row() -> None:
    """As many names as there are columns are not yet the right ones."""
    given = defaultdict(int, SEEN=None, COUNTED=1)
    with pytest.raises(ValueError, match="no value column 'COUNTED'"):
        OUTPUT.row("a", given)
    assert given == {"SEEN": None, "COUNTED": 1}


@pytest.mark.parametrize("at_ms", [-1, LATEST + 1])
def test_a_record_of_an_impossible_time_causes_no_rows(at_ms: int) -> None:
    context = Context(0, OUTPUT, TaskStores(lambda *_: Table()), now_ms=at_ms)
    with pytest.raises(ValueError, match="a row cannot have the time"):
        context.forward("a", {})
    context.now_ms = 0
    context.forward("a", {})
    assert context.forwarded.times_ms == [0]

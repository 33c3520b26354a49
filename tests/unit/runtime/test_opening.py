"""How often a query opens its tasks, and what it requests of the log until it may open some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import pytest

from millstream.log.log import Fetched, Reader, TopicPartition
from millstream.runtime.runtime import Runtime
from millstream.runtime.spec import QueryState
from millstream.runtime.tasks import TaskState
from tests.unit.runtime.queries import COUNT, LONE, SETTINGS, Bench

TASKS = 4


class LateRestorer:
    """Grants no partitions but those in `granted`, which the test sets."""

    def __init__(self) -> None:
        self.granted: frozenset[int] = frozenset()

    def prepare(self, _query_id: str, wanted: frozenset[int]) -> frozenset[int]:
        return wanted & self.granted


def requests(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The requests about positions, ends and topics that are made of the log."""
    found: Counter[str] = Counter()

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def request(*arguments: Any, **options: Any) -> Any:
            found[name] += 1
            return call(*arguments, **options)

        return request

    for name in ("positions", "describe", "start_offset", "written_end", "written_ends", "writer"):
        monkeypatch.setattr(bench.log, name, counted(name, getattr(bench.log, name)))
    return found


def test_a_query_without_tasks_requests_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, restorer = Bench(TASKS), LateRestorer()
    bench.instance = Runtime(bench.log, SETTINGS, restorer=restorer)
    bench.query([(COUNT, bench.executor(COUNT))], topics=(*bench.log.topics(),))
    found = requests(bench, monkeypatch)
    bench.rest()
    assert not found
    assert bench.status().state is QueryState.RUNNING
    assert bench.status().metrics.opened == 0
    restorer.granted = frozenset(range(TASKS))
    bench.send(1, topic=COUNT.inputs[0], partition=3)
    bench.rest()
    assert bench.status().metrics.opened == 1
    assert [key for partition in range(TASKS) for key, _ in bench.rows(partition=partition)] == [1]


def test_opening_asks_once_for_all_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(TASKS)
    writer = bench.log.writer("starts")
    writer.transact("Q", (), {(COUNT.inputs[0], partition): 0 for partition in range(TASKS)})
    bench.query([(COUNT, bench.executor(COUNT))], topics=(*bench.log.topics(),))
    found = requests(bench, monkeypatch)
    bench.rest()
    # The simulated log finds many ends one by one.
    assert found.pop("written_end") == TASKS
    assert found == {"writer": 1, "describe": 1, "positions": 1, "written_ends": 1}
    assert bench.status().metrics.opened == 1


class Awaited:
    """A reader for which the records of a partition arrive after the first read of it."""

    def __init__(self, inner: Reader[Any]) -> None:
        self.inner = inner
        self.asked: list[int] = []

    def begin(self, together: Collection[TopicPartition] = ()) -> None:
        self.inner.begin(together)

    def read(
        self, topic: str, partition: int, offset: int, limit: int, before: int | None = None
    ) -> Fetched[Any]:
        if partition not in self.asked:
            self.asked.append(partition)
            return Fetched(topic, partition, (), 0, offset, False, awaited=True)
        return self.inner.read(topic, partition, offset, limit, before)

    def close(self) -> None:
        self.inner.close()


def test_the_changelogs_of_all_tasks_are_fetched_at_once() -> None:
    """They came one after another, each after a wait for a fetch."""
    bench = Bench(partitions=3)
    bench.query([(LONE, bench.executor(LONE))])
    for partition in range(3):
        bench.send(1, 2, partition=partition)
    bench.rest()
    bench.instance.remove_query("Q", bench.now)
    readers: list[Awaited] = []
    right = bench.log.reader

    def reader(*, alone: bool = False) -> Any:
        if not alone:
            return right()
        readers.append(Awaited(right(alone=True)))
        return readers[-1]

    bench.log.reader = reader  # type: ignore[method-assign]
    bench.query([(LONE, bench.executor(LONE))])
    while not readers:
        bench.steps(1)
    assert readers[0].asked == [0, 1, 2]
    bench.rest()
    assert all(task.state is TaskState.RUNNING for task in bench.instance.tasks("Q"))

"""What the tests of this folder have in common: a log, a query, and steps until it rests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from millstream.log.log import Appended, Fetched, Topic
from millstream.log.simulated import Fault, SimulatedLog
from millstream.model.problem import Problem
from millstream.runtime.ports import RunResult, Snapshots
from millstream.runtime.runtime import (
    ExecutorSpec,
    Guarantee,
    QuerySpec,
    QueryStatus,
    Runtime,
    RuntimeSettings,
)
from tests.simulation.pure import Disk, Job, PureExecutor
from tests.simulation.world import ROWS

SETTINGS = RuntimeSettings(commit_interval_ms=10, idle_poll_ms=5, backoff_ms=20)
EXACTLY = Guarantee.EXACTLY_ONCE
AT_LEAST = Guarantee.AT_LEAST_ONCE
REKEY = Job(("in",), "rep", rekey=True)
COUNT = Job(("rep",), "out", count=True, changelog="changelog")
LONE = Job(("in",), "out", count=True, changelog="changelog")
TOPICS = ("in", "rep", "out", "changelog", "in2", "out2")


@dataclass(slots=True)
class WatchedExecutor:
    """A PureExecutor that notes its calls; `before_run` may raise."""

    inner: PureExecutor
    calls: list[str] = field(default_factory=list)
    handed: list[Sequence[Fetched[Any]]] = field(default_factory=list)
    before_run: Callable[[], tuple[Problem, ...]] = tuple

    def run(
        self, inputs: Sequence[Fetched[Any]], *, together: bool = False, closing: bool = False
    ) -> RunResult[Any]:
        self.calls.append("run")
        self.handed.append(inputs)
        problems = self.before_run()
        result = self.inner.run(inputs, together=together, closing=closing)
        return replace(result, problems=problems)

    def open(self, partition: int) -> int:
        self.calls.append("open")
        return self.inner.open(partition)

    def restore(self, partition: int, fetched: Fetched[Any]) -> None:
        self.calls.append("restore")
        self.inner.restore(partition, fetched)

    def clear(self, partition: int, position: int) -> None:
        self.calls.append("clear")
        self.inner.clear(partition, position)

    def snapshots(self) -> Snapshots:
        return self.inner.snapshots()

    def hand_back(
        self, topic: str, partition: int, first: int, records: Sequence[Appended[Any]]
    ) -> Sequence[Appended[Any]]:
        self.calls.append("hand back")
        return self.inner.hand_back(topic, partition, first, records)

    def flush(self) -> tuple[Appended[Any], ...]:
        self.calls.append("flush")
        return self.inner.flush()

    def commit(self, changelog_positions: Any) -> None:
        self.calls.append("commit")
        self.inner.commit(changelog_positions)

    def discard(self) -> None:
        self.calls.append("discard")
        self.inner.discard()

    def close(self) -> None:
        self.calls.append("close")
        self.inner.close()


class Bench:
    """A log whose faults the test sets, an instance, and a clock."""

    def __init__(
        self, partitions: int = 1, settings: RuntimeSettings = SETTINGS, *, markers: bool = False
    ) -> None:
        self.partitions = partitions
        self.faults: dict[str, Fault] = {}
        self.log = SimulatedLog(
            ROWS, fault=lambda name: self.faults.get(name, Fault.NONE), markers=markers
        )
        for name in TOPICS:
            self.log.create_topic(Topic(name, partitions))
        self.problems: list[tuple[str, Sequence[Problem]]] = []
        self.instance: Runtime[Any] = Runtime(
            self.log, settings, lambda query, found: self.problems.append((query, found))
        )
        self.now = 0
        self.producer = self.log.writer("producer")

    def executor(self, job: Job, disk: Disk | None = None, hold: float = 0.0) -> WatchedExecutor:
        return WatchedExecutor(PureExecutor(job, self.partitions, disk or Disk(), Random(1), hold))

    def query(
        self,
        jobs: Sequence[tuple[Job, WatchedExecutor]],
        name: str = "Q",
        guarantee: Guarantee = EXACTLY,
        **others: Any,
    ) -> None:
        executors = tuple(
            ExecutorSpec(executor, job.inputs, self.partitions, job.changelog, (job.target,))
            for job, executor in jobs
        )
        self.instance.add_query(
            QuerySpec(name, name, executors, guarantee, repartitions=frozenset({"rep"}), **others)
        )

    def send(self, *keys: int, topic: str = "in", partition: int = 0) -> None:
        rows = tuple((key, f"v{number}") for number, key in enumerate(keys))
        self.producer.append([Appended(topic, partition, rows, len(rows))])

    def rest(self, limit: int = 500) -> None:
        """Step until nothing is left to do for longer than a commit interval."""
        quiet = 0
        for _ in range(limit):
            step = self.instance.step(self.now)
            quiet = 0 if step.progress else quiet + 1
            if quiet > 20:
                return
            self.now += 1 if step.progress else 5
        raise AssertionError("does not come to rest")

    def steps(self, count: int) -> None:
        """Steps without the clock moving."""
        for _ in range(count):
            self.instance.step(self.now)

    def rows(self, topic: str = "out", partition: int = 0) -> list[tuple[Any, Any]]:
        fetched = self.log.read(topic, partition, 0, 1 << 20)
        return [(key, value) for _offset, key, value in fetched.batch]

    def status(self, name: str = "Q") -> QueryStatus:
        return self.instance.query_status(name)

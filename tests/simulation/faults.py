"""Faults that strike by chance, and an executor in a process that may die, or be suspended, around
everything it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Protocol

from millstream.log.faults import Fault
from millstream.log.log import Appended, Fetched
from millstream.log.simulated import SimulatedLog
from millstream.log.simulated_records import Fate as Settled
from millstream.model.errors import UnavailableError
from millstream.runtime.ports import Executor, RunResult, Snapshots


class Fate(Protocol):
    """What the world decides."""

    def effect(self, name: str) -> None:
        """A point at which the process may die, or be suspended while others continue."""

    def hit(self, fault: str) -> bool:
        """Whether the fault strikes now."""

    def runs_from(self, changelog: str, partition: int, position: int) -> None:
        """A task runs whose state was replayed up to this position of its changelog."""


class Chance:
    """Decides by a seed which faults strike. None does while no process is acting, nor once the
    world is calm."""

    rnd: Random
    rates: Mapping[str, float]
    """How likely each fault is."""
    stats: Counter[str]
    calm: bool
    acting: Sequence[object]
    broker: SimulatedLog[Any]
    found: list[str]

    def hit(self, name: str) -> bool:
        """Whether a fault strikes here."""
        if self.calm or not self.acting or self.rnd.random() >= self.rates[name]:
            return False
        self.stats[name] += 1
        return True

    def fault(self, name: str) -> Fault:
        """What becomes of a request."""
        if not self.hit("unknown" if name == "transact.commit" else "lost"):
            return Fault.NONE
        return self.rnd.choice((Fault.REQUEST_LOST, Fault.RESPONSE_LOST))

    def runs_from(self, changelog: str, partition: int, position: int) -> None:
        """No state may hold a part of a transaction, even in a process that has lost the task."""
        spans: dict[int, list[int]] = {}
        for run in self.broker._partition(changelog, partition).pieces:
            if run.transaction is not None and run.fate is Settled.COMMITTED:
                spans.setdefault(id(run.transaction), [run.first]).append(run.next)
        if any(at[0] < position < at[-1] for at in spans.values()):
            self.found.append(f"runs on a part of a transaction: {changelog} at {position}")


class FaultyExecutor:
    """Forwards everything to `inner`, with a point of death before and after."""

    def __init__(self, inner: Executor[Any], fate: Fate) -> None:
        self.inner = inner
        self.fate = fate
        self.replayed: dict[int, tuple[str, int]] = {}
        """Up to which position of which changelog, by partition, since the last run."""

    def open(self, partition: int) -> int:
        self.fate.effect("executor.open")
        self.replayed.pop(partition, None)
        return self.inner.open(partition)

    def restore(self, partition: int, fetched: Fetched[Any]) -> None:
        self.fate.effect("executor.restore")
        self.inner.restore(partition, fetched)
        self.replayed[partition] = fetched.topic, fetched.next_offset

    def clear(self, partition: int, position: int) -> None:
        self.fate.effect("executor.clear")
        self.replayed.pop(partition, None)
        self.inner.clear(partition, position)

    def snapshots(self) -> Snapshots:
        return self.inner.snapshots()

    def run(
        self, inputs: Sequence[Fetched[Any]], *, together: bool = False, closing: bool = False
    ) -> RunResult[Any]:
        self.fate.effect("executor.run")
        for partition, (changelog, position) in self.replayed.items():
            self.fate.runs_from(changelog, partition, position)
        self.replayed.clear()
        return self.inner.run(inputs, together=together, closing=closing)

    def hand_back(
        self, topic: str, partition: int, first: int, records: Sequence[Appended[Any]]
    ) -> Sequence[Appended[Any]]:
        self.fate.effect("executor.hand back")
        return self.inner.hand_back(topic, partition, first, records)

    def flush(self) -> tuple[Appended[Any], ...]:
        self.fate.effect("executor.flush")
        return self.inner.flush()

    def commit(self, changelog_positions: Mapping[int, int]) -> None:
        self.fate.effect("executor.commit")
        if self.fate.hit("disk full"):
            raise UnavailableError("Simulated: the disk is full")
        self.inner.commit(changelog_positions)
        self.fate.effect("executor.commit.done")

    def discard(self) -> None:
        self.replayed.clear()
        self.inner.discard()

    def close(self) -> None:
        self.inner.close()

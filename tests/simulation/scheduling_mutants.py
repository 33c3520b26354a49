"""Planted bugs of the ready queue, each of which loses a wake-up, hands out a query twice, or
promises too early that all is done."""

from __future__ import annotations

from typing import Any

from millstream.log.simulated import SimulatedLog
from millstream.log.watchers import grown
from millstream.runtime.ready_queue import Entry, ReadyQueue
from tests.simulation.scheduling import SchedulingMutant, SchedulingWorld
from tests.simulation.world import ROWS


class LostDuringStep(ReadyQueue):
    """Forgets what was told while a thread worked on the query."""

    def release(self, query_id: str, *arguments: Any, **options: Any) -> None:
        self.entries[query_id].told = False
        super().release(query_id, *arguments, **options)


class LostTimer(ReadyQueue):
    """Forgets when the query wanted to be looked at."""

    def _at(self, query_id: str, entry: Entry, at: int) -> None:
        pass


class TakenTwice(ReadyQueue):
    """Does not note that a thread works on the query."""

    def take(self, query_id: str) -> None:
        super().take(query_id)
        self.entries[query_id].taken = False


class RemovedReaders(ReadyQueue):
    """Removes all readers of a topic with one of them."""

    def remove(self, query_id: str) -> None:
        entry = self.entries.get(query_id)
        if entry is None:
            return
        names = entry.subscription.grown
        for name in names:
            self._of_growth.setdefault(name, {})[query_id] = None
        super().remove(query_id)
        for name in names:
            self._of_growth.pop(name, None)


class EarlySettled(ReadyQueue):
    """Takes a query for settled that got news during its last step."""

    def _settle(self, entry: Entry, *, settled: bool) -> None:
        super()._settle(entry, settled=settled or not entry.taken)


class EarlyNews(SimulatedLog[Any]):
    """Tells of records before they can be read, and not afterwards."""

    def write(self, identity: str, epoch: int, appended: Any) -> None:
        self._watchers.call(grown(append.topic for append in appended))
        watchers, self._watchers = self._watchers, type(self._watchers)()
        try:
            super().write(identity, epoch, appended)
        finally:
            self._watchers = watchers


class OtherQueue(SchedulingMutant):
    def __init__(self, kind: type[ReadyQueue]) -> None:
        self.kind = kind

    def queue(self) -> ReadyQueue:
        return self.kind()


class LateBegin(SchedulingMutant):
    begins_late = True


class NewsFirst(SchedulingMutant):
    def log(self, world: SchedulingWorld) -> SimulatedLog[Any]:
        return EarlyNews(ROWS, effect=world.effect, fault=world.fault)


SCHEDULING_MUTANTS: dict[str, SchedulingMutant] = {
    "news during a step are lost": OtherQueue(LostDuringStep),
    "a time is forgotten": OtherQueue(LostTimer),
    "a query is taken twice": OtherQueue(TakenTwice),
    "readers are removed with another one": OtherQueue(RemovedReaders),
    "settled despite news": OtherQueue(EarlySettled),
    "a step begins when it has ended": LateBegin(),
    "news come before the records": NewsFirst(),
}

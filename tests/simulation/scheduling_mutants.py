"""Planted bugs of the ready queue, each of which loses a wake-up, hands out a query twice, or
promises too early that all is done; and of commit rounds, in which the work of one query must not
depend on what becomes of another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from millstream.log.log import Outcome, Participant, Result
from millstream.log.watchers import grown
from millstream.runtime.query_runner import QueryRunner
from millstream.runtime.ready_queue import Entry, ReadyQueue
from millstream.runtime.spec import Step
from tests.simulation.scheduling import InterruptedLog, SchedulingMutant, SchedulingWorld
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


class EarlyNews(InterruptedLog):
    """Tells of records before they can be read, and not afterwards."""

    def write(self, appended: Any, check: Any) -> None:
        self._watchers.call(grown(append.topic for append in appended))
        watchers, self._watchers = self._watchers, type(self._watchers)()
        try:
            super().write(appended, check)
        finally:
            self._watchers = watchers


class ForgottenRound(ReadyQueue):
    """Forgets those that wait for a round but are not in it."""

    def take_round(self, query_ids: Any) -> None:
        super().take_round(query_ids[:1])
        self._due.clear()
        for query_id in query_ids[1:]:
            self.take(query_id)

    def round(self, now: int, *, others: bool, without: Any = ()) -> list[str]:
        return super().round(now, others=others, without=without)[:2]


class RoundSettles(ReadyQueue):
    """Takes queries for settled while they wait for their round."""

    def release(self, query_id: str, now: int, step: Step, **options: Any) -> None:
        super().release(query_id, now, step, **options)
        if step.due:
            self._settle(self.entries[query_id], settled=True)


class OthersPositions(InterruptedLog):
    """Commits the positions of one query for the group of another one."""

    def transact_all(self, participants: Sequence[Participant[Any]]) -> list[Result]:
        groups = [each.group for each in participants]
        return super().transact_all(
            [
                replace(each, group=group)
                for each, group in zip(participants, groups[1:] + groups[:1], strict=True)
            ]
        )


class AllCommitted(InterruptedLog):
    """Takes the outcome of the first one for that of all."""

    def transact_all(self, participants: Sequence[Participant[Any]]) -> list[Result]:
        results = super().transact_all(participants[:1])
        return results + [Outcome.COMMITTED] * (len(participants) - len(results))


class HalvesTwice(InterruptedLog):
    """Sends everything again when one participant could not commit."""

    def transact_all(self, participants: Sequence[Participant[Any]]) -> list[Result]:
        results = super().transact_all(participants)
        if any(result is not Outcome.COMMITTED for result in results):
            super().transact_all(participants)
        return results


class SentThoughFailed(QueryRunner[Any]):
    """Commits the records of its runs although it could not flush."""

    def prepare(self, now: int) -> Participant[Any] | None:
        early = self.pending and self.collector.participant((), self.positions())
        prepared = super().prepare(now)
        self.failed = prepared is None and bool(early)
        return early if self.failed and early else prepared

    def discard(self) -> None:
        writer, self.collector._writer = self.collector._writer, None
        super().discard()
        self.collector._writer = writer

    def conclude(self, now: int, result: Result) -> None:
        if not self.failed:
            super().conclude(now, result)


class KeptAfterRound(QueryRunner[Any]):
    """Goes on with its memory when its part of a round failed."""

    def conclude(self, now: int, result: Result) -> None:
        committed = isinstance(result, Exception) or result is Outcome.ABORTED
        super().conclude(now, Outcome.COMMITTED if committed else result)


class OtherQuery(SchedulingMutant):
    def __init__(self, kind: type[QueryRunner[Any]]) -> None:
        self.kind = kind

    def query(self) -> type[QueryRunner[Any]]:
        return self.kind


class OtherLog(SchedulingMutant):
    def __init__(self, kind: type[InterruptedLog]) -> None:
        self.kind = kind

    def log(self, world: SchedulingWorld) -> InterruptedLog:
        return self.kind(ROWS, effect=world.effect, fault=world.fault)


class OtherQueue(SchedulingMutant):
    def __init__(self, kind: type[ReadyQueue]) -> None:
        self.kind = kind

    def queue(self) -> ReadyQueue:
        return self.kind()


class LateBegin(SchedulingMutant):
    begins_late = True


class AnyThread(ReadyQueue):
    """Threads take queries of either kind."""

    def candidates(self, *, functions: bool | None = None) -> list[str]:
        return super().candidates()


class ForgottenFunctions(ReadyQueue):
    """A query whose time has come is not for the threads of its kind."""

    def candidates(self, *, functions: bool | None = None) -> list[str]:
        found = super().candidates(functions=functions)
        lanes = (self.entries[query_id].lane for query_id in found)
        return [
            one for one, lane in zip(found, lanes, strict=True) if not (lane and all(lane[::2]))
        ]


class LingersForEver(ReadyQueue):
    """A lingering query waits for news."""

    def linger(self, query_id: str, now: int, limit_ms: int) -> bool:
        lingers = super().linger(query_id, now, limit_ms)
        if lingers:
            self.entries[query_id].timer = 0
        return lingers


class LingersPastItsTime(ReadyQueue):
    """A lingering query forgets when it has to commit."""

    def linger(self, query_id: str, now: int, limit_ms: int) -> bool:
        self.entries[query_id].wake_at = None
        return super().linger(query_id, now, limit_ms)


class LingersThoughWoken(ReadyQueue):
    """A lingering query lets those wait who have woken it."""

    def linger(self, query_id: str, now: int, limit_ms: int) -> bool:
        self.entries[query_id].urgent = False
        return super().linger(query_id, now, limit_ms)


SCHEDULING_MUTANTS: dict[str, SchedulingMutant] = {
    "news during a step are lost": OtherQueue(LostDuringStep),
    "a time is forgotten": OtherQueue(LostTimer),
    "a processing thread calls functions": OtherQueue(AnyThread),
    "functions whose time has come are forgotten": OtherQueue(ForgottenFunctions),
    "a lingering query is forgotten": OtherQueue(LingersForEver),
    "a lingering query commits late": OtherQueue(LingersPastItsTime),
    "a woken query lingers": OtherQueue(LingersThoughWoken),
    "a query is taken twice": OtherQueue(TakenTwice),
    "readers are removed with another one": OtherQueue(RemovedReaders),
    "settled despite news": OtherQueue(EarlySettled),
    "a step begins when it has ended": LateBegin(),
    "news come before the records": OtherLog(EarlyNews),
    "due commits beside a round are forgotten": OtherQueue(ForgottenRound),
    "settled before the round": OtherQueue(RoundSettles),
    "positions of one query are committed for another": OtherLog(OthersPositions),
    "the outcome of one query is taken for that of all": OtherLog(AllCommitted),
    "a round is sent again as a whole": OtherLog(HalvesTwice),
    "a query's records are sent though it failed": OtherQuery(SentThoughFailed),
    "memory is kept when a part of a round failed": OtherQuery(KeptAfterRound),
}

"""Who works on which query: at most one thread at a time on each, the one with most to do first."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from millstream.runtime.runtime import Runtime
from millstream.runtime.scheduling import choose
from millstream.runtime.spec import Step

IDLE_WAIT_MS_MAX = 500
SIGNALS_SECONDS = 0.5


@dataclass(slots=True)
class RunSlot:
    """One query as the threads see it. Times in ms."""

    taken: bool = False
    wanted: int = 0
    """How many wait for it by name; no thread of the pool takes it then."""
    wake_at: int | None = 0
    """When to look at it again if there is no news; None: never."""
    seen: int = -1
    """The news that there were when it was looked at last."""
    settled: int = -1
    """The news up to which it has done and committed all there is."""
    done: int = 0
    """How many pieces of work it has done."""
    free_since: int = 0
    rests_until: int = 0
    """Until then it leaves the time to others, if there are any with something to do."""
    on_return: Callable[[], None] | None = None
    """What is left to do by who has it, once he comes back."""

    def due(self, now: int, news: int) -> int | None:
        """When to look at it next; None: when there is news."""
        return now if self.seen != news else self.wake_at


class Scheduler:
    """The turns of an instance's queries. Its lock is held for moments only, never while a query
    is worked on, and nothing that may take another lock is called under it."""

    def __init__(self, instance: Runtime[Any], clock: Callable[[], int], full: int) -> None:
        """`full`: how many records make a batch."""
        self._instance = instance
        self._clock = clock
        self._full = full
        self._turns: dict[str, RunSlot] = {}
        lock = threading.Lock()
        self._news_came = threading.Condition(lock)
        self._freed = threading.Condition(lock)
        self._guarded = False
        """Whether one of the idle threads looks at the clock; the others wait for news only."""
        self._ended = False
        self._waiting = 0
        self.news = 0
        """How often there has been news."""

    def wake(self) -> None:
        """There may be something to do for any query. May be called under any lock."""
        with self._news_came:
            self.news += 1
            self._news_came.notify()

    def end(self) -> None:
        """Let `take` give nothing any more."""
        with self._news_came:
            self._ended = True
            self._news_came.notify_all()

    # ---- threads of the pool -----------------------------------------------------------------

    def take(self) -> str | None:
        """Wait for a query that has something to do, and take it; None when all is to end."""
        with self._news_came:
            while not self._ended:
                now = self._clock()
                chosen, others = self._choose(now)
                if chosen is not None:
                    self._turns[chosen].taken = True
                    if others or not self._guarded:
                        self._news_came.notify()
                    return chosen
                self._wait(now)
        return None

    def _choose(self, now: int) -> tuple[str | None, bool]:
        """The query to take, and whether there are others."""
        turns = self._synchronised()
        awake = {
            query_id: now - turn.free_since
            for query_id, turn in turns.items()
            if not turn.taken and not turn.wanted and self._awake(turn, now)
        }
        rested = {name: ms for name, ms in awake.items() if turns[name].rests_until <= now}
        busy = any(turn.taken for turn in turns.values())
        candidates = self._instance.candidates(rested if rested or busy else awake, now)
        return choose(candidates, self._full), len(rested) > 1

    def _synchronised(self) -> dict[str, RunSlot]:
        """The turns, with those of queries that have been added or removed."""
        queries = self._instance.query_ids()
        for query_id in queries:
            if query_id not in self._turns:
                self._turns[query_id] = RunSlot(free_since=self._clock())
        if len(self._turns) > len(queries):
            for query_id in self._turns.keys() - set(queries):
                if not self._turns[query_id].taken and not self._turns[query_id].wanted:
                    del self._turns[query_id]
        return self._turns

    def _awake(self, turn: RunSlot, now: int) -> bool:
        due = turn.due(now, self.news)
        return due is not None and due <= now

    def _wait(self, now: int) -> None:
        if self._guarded:
            self._news_came.wait()
            return
        free = [turn for turn in self._turns.values() if not turn.taken]
        wakes = [(turn.due(now, self.news), turn.rests_until) for turn in free]
        known = (max(due, rested) - now for due, rested in wakes if due is not None)
        until = min(known, default=IDLE_WAIT_MS_MAX)
        self._guarded = True
        try:
            self._news_came.wait(min(max(until, 1), IDLE_WAIT_MS_MAX) / 1000)
        finally:
            self._guarded = False

    def wanted(self, query_id: str) -> bool:
        """Whether somebody waits for this query by name, or for everything to end."""
        turn = self._turns.get(query_id)
        return self._ended or (turn is not None and turn.wanted > 0)

    def taken(self, query_id: str) -> bool:
        """Whether somebody works on the query."""
        turn = self._turns.get(query_id)
        return turn is not None and turn.taken

    @property
    def hurried(self) -> bool:
        """Whether somebody waits for everything to be done and committed."""
        return self._waiting > 0

    def give_back(self, query_id: str, done: int, step: Step, seen: int, rest_ms: int) -> None:
        """End a turn of so many pieces of work. `step` was the last one, `seen` the news there
        were before it. In a hurry, a query that has nothing left to do must be committed."""
        with self._news_came:
            turn = self._turns[query_id]
            turn.seen, turn.wake_at = seen, step.wake_at
            turn.rests_until = self._clock() + rest_ms
            turn.done += done
            if self.hurried and not step.progress and not step.awaiting:
                turn.settled = seen
            on_return, turn.on_return = turn.on_return, None
        try:
            if on_return is not None:
                on_return()
        finally:
            self._free(turn)

    def _free(self, turn: RunSlot) -> None:
        with self._news_came:
            turn.taken = False
            turn.free_since = self._clock()
            self._freed.notify_all()
            self._news_came.notify()

    # ---- those who wait for everything -------------------------------------------------------

    def settle(self, until: float = math.inf) -> bool:
        """Wait until all queries have done and committed what there is, or until then, by the
        monotonic clock, or until all is to end; whether they had anything to do."""
        with self._freed:
            before = self._done()
            # In this order: who sees the news, which he does without the lock, hurries.
            self._waiting += 1
            self.news += 1
            self._news_came.notify()
            try:
                while not (self._settled() or self._ended) and time.monotonic() < until:
                    # A signal just before a wait without end would not be seen (CPython).
                    self._freed.wait(min(SIGNALS_SECONDS, max(0.0, until - time.monotonic())))
            finally:
                self._waiting -= 1
            return self._done() != before

    def _settled(self) -> bool:
        turns = self._synchronised().values()
        return all(turn.settled == self.news and not turn.taken for turn in turns)

    def _done(self) -> dict[str, int]:
        return {query_id: turn.done for query_id, turn in self._synchronised().items()}

    # ---- those who want one query ------------------------------------------------------------

    @contextmanager
    def holding(self, query_id: str, until: float | None = None) -> Iterator[bool]:
        """Nobody works on the query meanwhile; False when it could not be had until then, by the
        monotonic clock."""
        with self._freed:
            turn = self._synchronised().setdefault(query_id, RunSlot())
            turn.wanted += 1
            left = None if until is None else max(0.0, until - time.monotonic())
            had = self._freed.wait_for(lambda: not turn.taken, left)
            turn.wanted -= 1
            turn.taken = turn.taken or had
        try:
            yield had
        finally:
            if had:
                turn.seen = -1
                self._free(turn)

    def afterwards(self, query_id: str, action: Callable[[], None]) -> bool:
        """Have `action` done by who works on the query, when he comes back; False if nobody is
        at work there."""
        with self._news_came:
            turn = self._turns.get(query_id)
            if turn is None or not turn.taken:
                return False
            earlier = turn.on_return

            def both() -> None:
                if earlier is not None:
                    earlier()
                action()

            turn.on_return = both
            return True

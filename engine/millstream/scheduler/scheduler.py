"""Assigns queries to threads: at most one thread at a time for each query, the query with the most
pending work first."""

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
    """The scheduling state of one query. Times are in ms."""

    taken: bool = False
    waiters: int = 0
    """The number of callers that wait for this query; the pool does not take it meanwhile."""
    wake_at: int | None = 0
    """When it is due without a wake-up; None: never."""
    seen: int = -1
    """The scheduler's `wake_count` when its last step began."""
    drained_at: int = -1
    """The `wake_count` up to which it has processed and committed everything."""
    done: int = 0
    """The number of steps it has run."""
    free_since: int = 0
    throttled_until: int = 0
    """Until then other queries with pending work go first."""
    on_release: Callable[[], None] | None = None
    """Called by the thread that works on it when it releases the query."""

    def due(self, now: int, wake_count: int) -> int | None:
        """When it is due; None: at the next wake-up."""
        return now if self.seen != wake_count else self.wake_at


class Scheduler:
    """The run slots of the queries of a runtime. Its lock is held only briefly, never while a step
    runs, and nothing that may take another lock is called under it."""

    def __init__(self, runtime: Runtime[Any], clock: Callable[[], int], full: int) -> None:
        """`full`: the number of records of a full batch."""
        self._runtime = runtime
        self._clock = clock
        self._full = full
        self._slots: dict[str, RunSlot] = {}
        lock = threading.Lock()
        self._woken = threading.Condition(lock)
        self._freed = threading.Condition(lock)
        self._timed_wait = False
        """Whether an idle thread waits with a timeout; the others wait for a wake-up only."""
        self._ended = False
        self._drainers = 0
        self.wake_count = 0
        """The number of wake-ups so far."""

    def wake(self) -> None:
        """Signal that any query may have work. May be called under any lock."""
        with self._woken:
            self.wake_count += 1
            self._woken.notify()

    def end(self) -> None:
        """Let `take` return None from now on."""
        with self._woken:
            self._ended = True
            self._woken.notify_all()

    # ---- threads of the pool -----------------------------------------------------------------

    def take(self) -> str | None:
        """Wait for a query with pending work, and take it; None after `end`."""
        with self._woken:
            while not self._ended:
                now = self._clock()
                chosen, others = self._choose(now)
                if chosen is not None:
                    self._slots[chosen].taken = True
                    if others or not self._timed_wait:
                        self._woken.notify()
                    return chosen
                self._wait(now)
        return None

    def _choose(self, now: int) -> tuple[str | None, bool]:
        """The query to take, and whether others are due as well."""
        slots = self._synchronised()
        awake = {
            query_id: now - slot.free_since
            for query_id, slot in slots.items()
            if not slot.taken and not slot.waiters and self._awake(slot, now)
        }
        unthrottled = {name: ms for name, ms in awake.items() if slots[name].throttled_until <= now}
        busy = any(slot.taken for slot in slots.values())
        candidates = self._runtime.candidates(unthrottled if unthrottled or busy else awake, now)
        return choose(candidates, self._full), len(unthrottled) > 1

    def _synchronised(self) -> dict[str, RunSlot]:
        """The slots, updated for queries that were added or removed."""
        queries = self._runtime.query_ids()
        for query_id in queries:
            if query_id not in self._slots:
                self._slots[query_id] = RunSlot(free_since=self._clock())
        if len(self._slots) > len(queries):
            for query_id in self._slots.keys() - set(queries):
                if not self._slots[query_id].taken and not self._slots[query_id].waiters:
                    del self._slots[query_id]
        return self._slots

    def _awake(self, slot: RunSlot, now: int) -> bool:
        due = slot.due(now, self.wake_count)
        return due is not None and due <= now

    def _wait(self, now: int) -> None:
        if self._timed_wait:
            self._woken.wait()
            return
        free = [slot for slot in self._slots.values() if not slot.taken]
        wakes = [(slot.due(now, self.wake_count), slot.throttled_until) for slot in free]
        known = (max(due, until) - now for due, until in wakes if due is not None)
        until = min(known, default=IDLE_WAIT_MS_MAX)
        self._timed_wait = True
        try:
            self._woken.wait(min(max(until, 1), IDLE_WAIT_MS_MAX) / 1000)
        finally:
            self._timed_wait = False

    def requested(self, query_id: str) -> bool:
        """Whether a caller waits for this query, or the scheduler has ended."""
        slot = self._slots.get(query_id)
        return self._ended or (slot is not None and slot.waiters > 0)

    def taken(self, query_id: str) -> bool:
        """Whether a thread works on the query."""
        slot = self._slots.get(query_id)
        return slot is not None and slot.taken

    @property
    def draining(self) -> bool:
        """Whether a caller waits until everything is processed and committed."""
        return self._drainers > 0

    def release(self, query_id: str, done: int, step: Step, seen: int, rest_ms: int) -> None:
        """Release a query after `done` steps. `step`: the last one; `seen`: the `wake_count` before
        it. While `draining`, a query without pending work must be committed before."""
        with self._woken:
            slot = self._slots[query_id]
            slot.seen, slot.wake_at = seen, step.wake_at
            slot.throttled_until = self._clock() + rest_ms
            slot.done += done
            if self.draining and not step.progress and not step.awaiting:
                slot.drained_at = seen
            on_release, slot.on_release = slot.on_release, None
        try:
            if on_release is not None:
                on_release()
        finally:
            self._free(slot)

    def _free(self, slot: RunSlot) -> None:
        with self._woken:
            slot.taken = False
            slot.free_since = self._clock()
            self._freed.notify_all()
            self._woken.notify()

    # ---- callers that wait for all queries ---------------------------------------------------

    def drain(self, until: float = math.inf) -> bool:
        """Wait until all queries have processed and committed everything, or until the time `until`
        (monotonic clock), or until `end`. Returns whether they did anything."""
        with self._freed:
            before = self._done()
            # In this order: a thread reads the count without the lock, and one that sees the new
            # count must also see that a caller waits, so that it commits.
            self._drainers += 1
            self.wake_count += 1
            self._woken.notify()
            try:
                while not (self._drained() or self._ended) and time.monotonic() < until:
                    # CPython does not handle a signal that arrives just before an unbounded wait.
                    self._freed.wait(min(SIGNALS_SECONDS, max(0.0, until - time.monotonic())))
            finally:
                self._drainers -= 1
            return self._done() != before

    def _drained(self) -> bool:
        slots = self._synchronised().values()
        return all(slot.drained_at == self.wake_count and not slot.taken for slot in slots)

    def _done(self) -> dict[str, int]:
        return {query_id: slot.done for query_id, slot in self._synchronised().items()}

    # ---- callers that wait for one query -----------------------------------------------------

    @contextmanager
    def holding(self, query_id: str, until: float | None = None) -> Iterator[bool]:
        """Keep all other threads off the query. Yields False if the query was not released before
        the time `until` (monotonic clock)."""
        with self._freed:
            slot = self._synchronised().setdefault(query_id, RunSlot())
            slot.waiters += 1
            left = None if until is None else max(0.0, until - time.monotonic())
            acquired = self._freed.wait_for(lambda: not slot.taken, left)
            slot.waiters -= 1
            slot.taken = slot.taken or acquired
        try:
            yield acquired
        finally:
            if acquired:
                slot.seen = -1
                self._free(slot)

    def after_release(self, query_id: str, action: Callable[[], None]) -> bool:
        """Have the thread that works on the query call `action` when it releases it. Returns False
        if no thread does."""
        with self._woken:
            slot = self._slots.get(query_id)
            if slot is None or not slot.taken:
                return False
            earlier = slot.on_release

            def both() -> None:
                if earlier is not None:
                    earlier()
                action()

            slot.on_release = both
            return True

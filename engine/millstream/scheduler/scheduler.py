"""Assigns queries to threads: at most one thread at a time for each query, the query with the most
pending work first."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from millstream.log.watchers import News
from millstream.runtime.ready_queue import ReadyQueue
from millstream.runtime.runtime import Runtime
from millstream.runtime.scheduling import Candidate, choose
from millstream.runtime.spec import Step
from millstream.scheduler.offers import Offer, StartedOffer

Result = TypeVar("Result")
BESIDE_BYTES = 256 << 10
"""Fewer bytes are written in less time than another thread needs to begin."""
TIMED_WAIT_MS_MAX = 500
"""The longest wait for a point in time. The clock is the time of day, which may be set."""
SIGNALS_SECONDS = 0.5
LOOK_MS = 5_000
"""For how long queries do not linger after someone has looked at their results."""


class Taken(NamedTuple):
    """What a thread has taken: a query to run, the queries of a commit round, or the offer of
    another thread."""

    query_ids: tuple[str, ...]
    commits: bool = False
    offer: Offer | None = None


@dataclass(frozen=True, slots=True)
class Awaited:
    """The queries whose results somebody waits for. `changes` and `topics`: what they were found
    for."""

    changes: int = -1
    topics: frozenset[str] = frozenset()
    query_ids: frozenset[str] = frozenset()


class Scheduler:
    """The ready queue of a runtime, for threads. Its lock is held only briefly, never while a step
    runs, and nothing that may take another lock is called under it."""

    def __init__(
        self, runtime: Runtime[Any], clock: Callable[[], int], full: int, linger_ms: int
    ) -> None:
        """`full`: the number of records of a full batch. `linger_ms`: how long a query with few
        records lets more come if nobody waits for its results."""
        self._runtime = runtime
        self._clock = clock
        self._full = full
        self._linger_ms = linger_ms
        self._queue = ReadyQueue()
        self._changes = 0
        """The runtime's `changes` when the queue was last brought up to date."""
        self._waiters: Counter[str] = Counter()
        """The number of callers that wait for a query; the pool does not take it meanwhile."""
        self._on_release: dict[str, Callable[[], None]] = {}
        """Called by the thread that works on a query when it releases the query."""
        self._watched: Counter[str] = Counter()
        """The topics that somebody reads as they grow, beside the queries."""
        self._looked: dict[str, int] = {}
        """The topics that somebody has looked at, and until when that counts."""
        self._awaited = Awaited()
        lock = threading.Lock()
        self._woken = threading.Condition(lock)
        self._functions_woken = threading.Condition(lock)
        """The same for the threads that call functions in Python."""
        self._freed = threading.Condition(lock)
        self._timed_until: int | None = None
        """The time until which an idle thread waits; the others wait for a wake-up only."""
        self._ended = False
        self._drainers = 0
        self._steps = 0
        """The number of steps that did something."""
        self._offers: deque[Offer] = deque()
        self._idle = 0
        """The number of threads that wait for something to take."""
        self._helping = 0
        """The number of threads that have taken an offer."""

    # ---- what makes queries ready ------------------------------------------------------------

    def tell(self, news: News) -> None:
        """Note news of the log. May be called under any lock."""
        with self._woken:
            self._queue.tell(news)
            self._notify()

    def wake(self, *query_ids: str) -> None:
        """Signal that the set of queries has changed, or that these may have work."""
        with self._woken:
            self._synchronise()
            for query_id in query_ids:
                self._queue.wake(query_id)
            self._notify()

    def wake_all(self) -> None:
        """Signal that any query may have work."""
        with self._woken:
            self._synchronise()
            self._queue.wake_all()
            self._notify()

    def end(self) -> None:
        """Let `take` return None from now on."""
        with self._woken:
            self._ended = True
            self._woken.notify_all()
            self._functions_woken.notify_all()

    def _notify(self) -> None:
        if self._queue.ready:
            self._woken.notify()
            self._notify_functions()

    def _notify_functions(self) -> None:
        if self._queue.functions_ready:
            self._functions_woken.notify()

    def _synchronise(self) -> None:
        """Bring the queue up to date with queries that were added or removed. Those that a thread
        works on follow when it releases them."""
        if self._changes == self._runtime.changes:
            return
        self._changes = self._runtime.changes
        self._queue.synchronise(self._runtime.subscriptions(), self._clock())
        self._wake_lingering()

    # ---- threads of the pool -----------------------------------------------------------------

    def take(self) -> Taken | None:
        """Wait for queries with pending work, and take them; None after `end`. Not those that call
        functions in Python, except to commit them."""
        with self._woken:
            while not self._ended:
                now = self._clock()
                taken = self._take(now)
                self._notify_functions()
                if taken is not None:
                    if self._queue.ready or self._timed_until is None:
                        self._woken.notify()
                    return taken
                self._idle += 1
                try:
                    self._wait(now)
                finally:
                    self._idle -= 1
        return None

    def take_functions(self) -> Taken | None:
        """The same for the queries that call functions in Python. Their threads wait for the others
        to notice that a query's time has come."""
        with self._functions_woken:
            while not self._ended:
                chosen = self._choose(self._clock(), functions=True)
                if chosen is not None:
                    self._queue.take(chosen.query_id)
                    self._notify()
                    return Taken((chosen.query_id,))
                self._functions_woken.wait()
        return None

    def _take(self, now: int) -> Taken | None:
        if self._offers:
            # Before queries: the one that offers is under way already.
            self._helping += 1
            return Taken((), offer=self._offers.popleft())
        chosen = self._choose(now, functions=False)
        company = chosen is not None and chosen.brief
        together = self._queue.round(now, others=company, without=self._waiters)
        if together:
            self._queue.take_round(together)
            return Taken(tuple(together), commits=True)
        if chosen is None:
            return None
        self._queue.take(chosen.query_id)
        return Taken((chosen.query_id,))

    def _choose(self, now: int, *, functions: bool) -> Candidate | None:
        self._synchronise()
        self._queue.fire(now)
        waited = {
            query_id: now - self._queue.entries[query_id].free_since
            for query_id in self._queue.candidates(functions=functions)
            if not self._waiters[query_id]
        }
        return choose(self._not_lingering(self._runtime.candidates(waited, now), now), self._full)

    # ---- lingering ---------------------------------------------------------------------------

    def _not_lingering(self, candidates: Sequence[Candidate], now: int) -> Sequence[Candidate]:
        """Those to choose from; the others linger from now on."""
        if not self._linger_ms or self.draining:
            return candidates
        few = [one.query_id for one in candidates if one.may_linger]
        awaited = self._awaited_now(now) if few else frozenset()
        lingering = {
            query_id
            for query_id in few
            if query_id not in awaited and self._queue.linger(query_id, now, self._linger_ms)
        }
        return [one for one in candidates if one.query_id not in lingering]

    def _awaited_now(self, now: int) -> frozenset[str]:
        self._looked = {topic: until for topic, until in self._looked.items() if until > now}
        topics = frozenset(self._looked) | self._watched.keys()
        if self._awaited.changes != self._runtime.changes or self._awaited.topics != topics:
            found = self._runtime.awaited(topics)
            self._awaited = Awaited(self._runtime.changes, topics, found)
        return self._awaited.query_ids

    def _wake_lingering(self) -> None:
        """Wake those that linger although somebody waits for their results by now."""
        lingering = self._queue.lingering
        if not lingering:
            return
        for query_id in self._awaited_now(self._clock()).intersection(lingering):
            self._queue.wake(query_id)

    def look(self, topics: Collection[str], until: float) -> None:
        """Note that somebody looks at what is in these topics: wait until the queries that feed
        them and linger have processed and committed what there is, or until the time `until`
        (monotonic clock)."""
        if not self._linger_ms:
            return
        with self._freed:
            now = self._clock()
            self._looked |= dict.fromkeys(topics, now + LOOK_MS)
            lingering = self._queue.lingering
            awaited = self._runtime.feeding(topics) if lingering else frozenset()
            if awaited.isdisjoint(lingering):
                return
            for query_id in awaited.intersection(lingering):
                self._queue.wake(query_id)
            self._woken.notify()
            while not self._ended and self._queue.unsettled(awaited):
                if (left := until - time.monotonic()) <= 0:
                    return
                self._freed.wait(min(SIGNALS_SECONDS, left))

    @property
    def lingering(self) -> tuple[str, ...]:
        """The queries that let more records come."""
        with self._woken:
            return self._queue.lingering

    def watch(self, topics: Collection[str]) -> Callable[[], None]:
        """Let no query linger that feeds these topics, until the result is called."""
        with self._woken:
            self._watched.update(topics)
            self._wake_lingering()
            self._notify()

        def cancel() -> None:
            with self._woken:
                self._watched = +(self._watched - Counter(topics))

        return cancel

    def _wait(self, now: int) -> None:
        at = self._queue.next_at()
        if at is None or (self._timed_until is not None and self._timed_until <= at):
            self._woken.wait()
            return
        self._timed_until = at
        try:
            self._woken.wait(min(max(at - now, 1), TIMED_WAIT_MS_MAX) / 1000)
        finally:
            # Another thread may still wait for a later time; one more timeout does no harm.
            self._timed_until = None

    # ---- threads that help the one of a query --------------------------------------------------

    @property
    def free(self) -> int:
        """The number of threads that have no query to run. Those that help are soon free again."""
        return max(0, self._idle + self._helping - len(self._offers))

    def run(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """See `executor.groups.Workers`. The caller makes the first call, and then those that no
        other thread has taken, so it waits only for threads that are making one of them."""
        offers = [Offer(call) for call in calls]
        with self._woken:
            self._offers.extend(offers[1:])
            self._woken.notify(len(offers) - 1)
        offers[0].run()
        for offer in offers[1:]:
            if self.withdrawn(offer):
                offer.run()
        for offer in offers:
            offer.wait()
        return [offer.result for offer in offers]

    def start(self, call: Callable[[], None], size: int) -> StartedOffer | None:
        """See `runtime.ports.Background`."""
        if size < BESIDE_BYTES or self._idle <= len(self._offers):
            call()
            return None
        offer = Offer(call)
        with self._woken:
            self._offers.append(offer)
            self._woken.notify()
        return StartedOffer(offer, self.withdrawn)

    def end_offer(self) -> None:
        """Note that the call of an offer that was taken has ended."""
        with self._woken:
            self._helping -= 1

    def withdrawn(self, offer: Offer) -> bool:
        """Whether no thread has taken an offer, and none will: the caller may make the call."""
        with self._woken:
            if offer in self._offers:
                self._offers.remove(offer)
                return True
        return False

    # ---- the thread of a query ------------------------------------------------------------------

    def begin(self, query_id: str) -> None:
        """Note that a step of a taken query begins."""
        self._queue.begin(query_id)

    def requested(self, query_id: str) -> bool:
        """Whether a caller waits for this query, or the scheduler has ended."""
        return self._ended or query_id in self._waiters

    def taken(self, query_id: str) -> bool:
        """Whether a thread works on the query."""
        entry = self._queue.entries.get(query_id)
        return entry is not None and entry.taken

    @property
    def waiting(self) -> int:
        """The number of queries that wait for a thread."""
        with self._woken:
            return self._queue.length

    @property
    def draining(self) -> bool:
        """Whether a caller waits until everything is processed and committed."""
        return self._drainers > 0

    def release(self, query_id: str, done: int, step: Step, rest_ms: int) -> None:
        """Release a query after `done` steps. `step`: the last one. While `draining`, a query
        without pending work must be committed before."""
        with self._woken:
            self._steps += done
            on_release = self._on_release.pop(query_id, None)
        try:
            if on_release is not None:
                on_release()
        finally:
            committed = self.draining and not step.due
            self._free(query_id, step, committed=committed, rest_ms=rest_ms)

    def end_round(self, query_ids: Sequence[str]) -> None:
        """Release the queries of a commit round. Each has to look once more: its input may have
        grown before it waited for the round."""
        with self._woken:
            self._queue.end_round()
        now = self._clock()
        for query_id in query_ids:
            self.release(query_id, 1, Step(True, now), 0)

    def _free(self, query_id: str, step: Step, *, committed: bool, rest_ms: int = 0) -> None:
        with self._woken:
            now = self._clock()
            self._queue.release(query_id, now, step, committed=committed, rest_ms=rest_ms)
            entry = self._queue.entries[query_id]
            if self._runtime.subscription(query_id) is not entry.subscription:
                self._changes = 0
                self._synchronise()
            self._freed.notify_all()
            self._woken.notify()
            self._notify_functions()

    # ---- callers that wait for all queries ---------------------------------------------------

    def drain(self, until: float = math.inf) -> bool:
        """Wait until all queries have processed and committed everything, or until the time `until`
        (monotonic clock), or until `end`. Returns whether they did anything, or are not done."""
        with self._freed:
            before = self._steps
            # In this order: a thread looks whether a caller waits without the lock, and one that
            # released its query before it could see that must work on it once more.
            self._drainers += 1
            self._synchronise()
            self._queue.wake_unsettled()
            self._woken.notify()
            self._notify_functions()
            try:
                while not (self._drained() or self._ended) and time.monotonic() < until:
                    # CPython does not handle a signal that arrives just before an unbounded wait.
                    self._freed.wait(min(SIGNALS_SECONDS, max(0.0, until - time.monotonic())))
            finally:
                self._drainers -= 1
            return self._steps != before or not (self._drained() or self._ended)

    def _drained(self) -> bool:
        self._synchronise()
        return self._queue.settled

    # ---- callers that wait for one query -----------------------------------------------------

    @contextmanager
    def holding(self, query_id: str, until: float | None = None) -> Iterator[bool]:
        """Keep all other threads off the query. Yields False if the query was not released before
        the time `until` (monotonic clock)."""
        with self._freed:
            self._synchronise()
            self._waiters[query_id] += 1
            left = None if until is None else max(0.0, until - time.monotonic())
            acquired = self._freed.wait_for(lambda: not self.taken(query_id), left)
            self._waiters[query_id] -= 1
            if not self._waiters[query_id]:
                del self._waiters[query_id]
            known = acquired and query_id in self._queue.entries
            if known:
                self._queue.take(query_id)
        try:
            yield acquired
        finally:
            if known:
                self._free(query_id, Step(True, None), committed=False)

    def after_release(self, query_id: str, action: Callable[[], None]) -> bool:
        """Have the thread that works on the query call `action` when it releases it. Returns False
        if no thread does."""
        with self._woken:
            if not self.taken(query_id):
                return False
            earlier = self._on_release.get(query_id)

            def both() -> None:
                if earlier is not None:
                    earlier()
                action()

            self._on_release[query_id] = both
            return True

"""The threads around the runtime: N of them take queries that have something to do, in turn.

`lock` protects the set of queries and the catalog; statements hold it, the threads do not. A
statement that touches one query waits for that one's turn, which is bounded unless a user's
function hangs. Two threads never work on the same query (`service/threads/scheduler.py`).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from millstream.model.errors import MillstreamError, UnavailableError
from millstream.runtime.runtime import Runtime
from millstream.runtime.spec import Step
from millstream.service.threads.fair_lock import FairRLock
from millstream.service.threads.scheduler import Scheduler

SLICE_SECONDS = 0.05
"""How long a thread stays with one query that has more to do, where others have, too."""
AWAIT_S_MAX = 0.05
"""Asking again is cheap, and the log's word that something has come might be missed."""
REMOVE_SECONDS = 10.0


class Driver:
    """Runs an instance, either in threads of its own or when asked to."""

    def __init__(
        self,
        instance: Runtime[Any],
        clock: Callable[[], int],
        maintain: Callable[[], object],
        *,
        threads: int = 2,
        full: int = 200_000,
    ) -> None:
        """`maintain` is called often, between steps: upkeep of the log, cheap when none is due.
        `full`: how many records make a batch."""
        self.instance = instance
        self.lock = FairRLock()
        self.failure: BaseException | None = None
        self.on_failure: Callable[[BaseException], None] | None = None
        """Called in a thread that dies, by a fault that is no query's."""
        self._clock = clock
        self._maintain = maintain
        self._turns = Scheduler(instance, clock, full)
        self._news = threading.Event()
        self._upkeep = threading.Lock()
        self._count = threads
        self._threads: list[threading.Thread] = []
        self._left: list[str] = []
        self._deadline = math.inf

    def start(self) -> None:
        """Start the processing threads."""
        self._threads = [
            threading.Thread(target=self._run, name=f"millstream-processing-{number}", daemon=True)
            for number in range(self._count)
        ]
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """There may be something to do now."""
        self._turns.wake()
        self._news.set()

    @property
    def threaded(self) -> bool:
        """Whether the instance moves on its own."""
        return bool(self._threads)

    # ---- statements --------------------------------------------------------------------------

    def remove(self, query_id: str, *, commit: bool = True) -> None:
        """Remove a query between two pieces of its work. Raises UnavailableError when it does not
        come to the end of one in time: it is then forgotten, and closed when it does."""
        until = min(time.monotonic() + REMOVE_SECONDS, self._deadline)
        with self._turns.holding(query_id, until) as had:
            if had:
                self.instance.remove_query(query_id, self._clock(), commit=commit)
                return
        self._leave(query_id, commit=commit)
        raise UnavailableError(
            f"Query {query_id} did not stop: it is still at one piece of its work",
            hint="Does a function in Python hang? The query ends when that returns; what it leaves"
            " is dropped when the database is opened again.",
            code="E-QUERY-BUSY",
        )

    def _leave(self, query_id: str, *, commit: bool) -> None:
        """Have a query closed by the thread that is at work in it."""
        if query_id in self.instance.query_ids():
            self._left.append(query_id)
            close = self.instance.detach(query_id)
            if not self._turns.afterwards(query_id, lambda: close(self._clock(), commit)):
                close(self._clock(), commit)

    def resume(self, query_id: str) -> None:
        """Let a query go on after a pause or an error."""
        with self._turns.holding(query_id, time.monotonic() + REMOVE_SECONDS) as had:
            if not had:
                raise UnavailableError(f"Query {query_id} is busy", hint="Try again.")
            self.instance.resume(query_id)
        self.wake()

    @contextmanager
    def holding(self, query_ids: Iterable[str], until: float) -> Iterator[None]:
        """No thread works on these queries meanwhile. UnavailableError (E-QUERY-BUSY) where one
        does not come to the end of a piece of its work until then, by the monotonic clock."""
        with ExitStack() as held:
            if not self.threaded:
                held.enter_context(self.lock)
            # Always in one order: no two callers can wait for each other.
            for query_id in sorted(query_ids) if self.threaded else ():
                if not held.enter_context(self._turns.holding(query_id, until)):
                    raise UnavailableError(f"Query {query_id} is busy", code="E-QUERY-BUSY")
            yield

    def process(self, query_id: str) -> bool:
        """Do one piece of work of a query that the caller holds, or commit it where there is none;
        whether anything was done."""
        step, _ = self._advance(query_id)
        if step.progress:
            return True
        before = self.instance.reached(query_id)
        self.instance.commit_query(query_id, self._clock())
        return before is not None and not before.committed

    # ---- waiting for work to be done ---------------------------------------------------------

    def catch_up(self, limit_ms: int) -> None:
        """Return when nothing is left to do and all is committed, or when `limit_ms` are over."""
        until = time.monotonic() + limit_ms / 1000
        if self.threaded:
            self._turns.settle(until)
            return
        with self.lock:
            for _ in range(2):
                while time.monotonic() < until and self._step_or_await():
                    pass
                self.instance.commit(self._clock())

    def run_until_idle(self) -> bool:
        """Return when nothing is left to do and all is committed; whether anything was done."""
        if self.threaded:
            return self._turns.settle()
        worked = False
        with self.lock:
            while True:
                worked |= self._step_until_idle()
                self.instance.commit(self._clock())
                if not self._step_until_idle():
                    return worked
                worked = True

    def _step_until_idle(self) -> bool:
        worked = False
        while self._step_or_await():
            worked = True
        return worked

    def _step_or_await(self) -> bool:
        """Whether something was done, or waited for that is on its way."""
        self._news.clear()
        step = self.instance.step(self._clock())
        if step.awaiting and not step.progress:
            self._news.wait(AWAIT_S_MAX)
        return step.progress or step.awaiting

    # ---- the threads -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (query_id := self._turns.take()) is not None:
                self._work(query_id)
                if self._upkeep.acquire(blocking=False):
                    try:
                        self._maintain()
                    finally:
                        self._upkeep.release()
        except BaseException as failure:
            self.failure = failure
            self._turns.end()
            if self.on_failure is not None:
                self.on_failure(failure)
            raise

    def _work(self, query_id: str) -> None:
        """One turn: until there is nothing left to do for the query, or its time is over."""
        until = time.monotonic() + SLICE_SECONDS
        step, seen, done, rest = Step(False, None), self._turns.news, 0, 0
        try:
            while True:
                seen = self._turns.news
                step, rest = self._advance(query_id)
                done += step.progress
                over = rest or time.monotonic() >= until or self._turns.wanted(query_id)
                if not step.progress or over:
                    return
        finally:
            self._turns.give_back(query_id, done, step, seen, rest)

    def _advance(self, query_id: str) -> tuple[Step, int]:
        """One piece of work, and for how many ms the query should leave Python to others. A fault
        that the runtime did not foresee stops this query only."""
        started, computed = time.monotonic(), time.thread_time()
        try:
            step = self.instance.advance(query_id, self._clock())
            if self._turns.hurried and not step.progress:
                self.instance.commit_query(query_id, self._clock())
        except BaseException as fault:
            with suppress(Exception):
                self.instance.fail(query_id, _as_error(fault))
            return Step(False, None), 0
        took_ms = round(1000 * (time.monotonic() - started))
        cpu_ms = round(1000 * (time.thread_time() - computed))
        return step, self.instance.pace(query_id, step.records, took_ms, cpu_ms)

    # ---- the end -----------------------------------------------------------------------------

    def end(self, seconds: float) -> None:
        """Let the threads take nothing any more; all that is to stop has so long to do it."""
        self._deadline = time.monotonic() + seconds
        self._turns.end()

    def stop(self) -> tuple[str, ...]:
        """After `end`: commit and remove all queries, each as it comes to the end of its piece of
        work. Gives those that did not in time; each is closed by its own thread when it does."""
        for query_id in self.instance.query_ids():
            with suppress(UnavailableError):
                self.remove(query_id)
        for thread in self._threads:
            thread.join(max(0.0, self._deadline - time.monotonic()))
        self._threads = []
        return tuple(query_id for query_id in self._left if self._turns.taken(query_id))

    def afterwards(self, query_id: str, action: Callable[[], None]) -> bool:
        """Have something done when a query that did not stop has come back; False if it has."""
        return self._turns.afterwards(query_id, action)


def _as_error(fault: BaseException) -> Exception:
    return fault if isinstance(fault, Exception) else MillstreamError(f"{type(fault).__name__}")

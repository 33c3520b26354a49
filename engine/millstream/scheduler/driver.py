"""The processing threads around the runtime: a pool whose threads take the queries with pending
work, and another one for the queries that call functions in Python.

`lock` protects the set of queries and the catalog. Statements hold it, the threads do not. A
statement that touches one query waits until no thread works on that query. The wait is bounded
unless a user's function hangs. Two threads never take the same query (`scheduler/scheduler.py`);
one may help the other with a part of its work.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from millstream.log.watchers import News
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.runtime.runtime import Runtime
from millstream.runtime.spec import Step
from millstream.scheduler.fair_lock import FairRLock
from millstream.scheduler.running_steps import RunningSteps
from millstream.scheduler.scheduler import Scheduler, Taken

SLICE_SECONDS = 0.05
"""How long a thread keeps a query that has more to do before it takes another one."""
AWAIT_S_MAX = 0.05
"""The longest wait for fetched records. Polling again is cheap, and a notification of the log may
be missed."""
REMOVE_SECONDS = 10.0


class Driver:
    """Runs a `Runtime`, either in threads of its own or in the thread that calls it."""

    def __init__(
        self,
        runtime: Runtime[Any],
        clock: Callable[[], int],
        maintain: Callable[[], object],
        *,
        threads: int = 2,
        function_threads: int = 2,
        full: int = 200_000,
        linger_ms: int = 0,
    ) -> None:
        """`maintain`: the upkeep of the log. It is called often, between steps, and must be cheap
        when none is due. `function_threads` run the queries that call functions in Python, and
        nothing else: a function may wait or compute for long. `full`: the number of records of a
        full batch. `linger_ms`: how long a query with few records lets more come while nobody waits
        for its results."""
        self.runtime = runtime
        self.lock = FairRLock()
        self.failure: BaseException | None = None
        self.on_failure: Callable[[BaseException], None] | None = None
        """Called in a thread that dies of a fault outside of a query."""
        self._clock = clock
        self._maintain = maintain
        self._scheduler = Scheduler(runtime, clock, full, linger_ms)
        self._steps = RunningSteps()
        self._wake = threading.Event()
        self._upkeep = threading.Lock()
        self._counts = threads, function_threads
        self._threads: list[threading.Thread] = []
        self._detached: list[str] = []
        self._deadline = math.inf

    def start(self) -> None:
        """Start the processing threads."""
        count, functions = self._counts
        take, take_functions = self._scheduler.take, self._scheduler.take_functions
        self._threads = [
            *(self._thread(take, f"millstream-processing-{n}") for n in range(count)),
            *(self._thread(take_functions, f"millstream-functions-{n}") for n in range(functions)),
        ]
        for thread in self._threads:
            thread.start()

    def _thread(self, take: Callable[[], Taken | None], name: str) -> threading.Thread:
        return threading.Thread(target=self._run, args=(take,), name=name, daemon=True)

    def tell(self, news: News) -> None:
        """Note news of the log."""
        self._scheduler.tell(news)
        self._wake.set()

    def wake(self, *query_ids: str) -> None:
        """Signal that queries were added or removed, or that these may have work."""
        self._scheduler.wake(*query_ids)
        self._wake.set()

    def wake_all(self) -> None:
        """Signal that any query may have work."""
        self._scheduler.wake_all()
        self._wake.set()

    @property
    def workers(self) -> Scheduler:
        """The processing threads, as far as they have nothing else to do (`Workers`)."""
        return self._scheduler

    @property
    def threaded(self) -> bool:
        """Whether the queries run in threads of the driver."""
        return bool(self._threads)

    @property
    def waiting(self) -> int:
        """The number of queries that wait for a thread of the driver."""
        return self._scheduler.waiting if self.threaded else 0

    def long_step(self, query_id: str) -> str:
        """What a query is in, if one of its steps does not end; see `RunningSteps.long`."""
        return self._steps.long(query_id)

    # ---- statements --------------------------------------------------------------------------

    def remove(self, query_id: str, *, commit: bool = True) -> None:
        """Remove a query between two of its steps. Raises UnavailableError if its current step does
        not end in time: the query is then detached, and closed when the step ends."""
        until = min(time.monotonic() + REMOVE_SECONDS, self._deadline)
        with self._scheduler.holding(query_id, until) as acquired:
            if acquired:
                self.runtime.remove_query(query_id, self._clock(), commit=commit)
                return
        found = self.long_step(query_id)
        self._detach(query_id, commit=commit)
        raise UnavailableError(
            f"Query {query_id} did not stop: one of its steps is still running",
            hint="Does a function in Python hang? The query ends when it returns; its state and"
            " topics are deleted when the database is opened again.",
            code="E-QUERY-BUSY",
            detail=found,
        )

    def _detach(self, query_id: str, *, commit: bool) -> None:
        """Detach a query; the thread that works on it closes it after_release."""
        if query_id in self.runtime.query_ids():
            self._detached.append(query_id)
            close = self.runtime.detach(query_id)
            if not self._scheduler.after_release(query_id, lambda: close(self._clock(), commit)):
                close(self._clock(), commit)

    def pause(self, query_id: str) -> None:
        """Pause a query, and wait until the step that it is in has ended: it processes nothing that
        arrives later. If the step does not end in time, the query pauses when it does."""
        self.runtime.pause(query_id)
        until = min(time.monotonic() + REMOVE_SECONDS, self._deadline)
        with self._scheduler.holding(query_id, until):
            self.wake(query_id)

    def resume(self, query_id: str) -> None:
        """Continue a query after a pause or an error."""
        with self._scheduler.holding(query_id, time.monotonic() + REMOVE_SECONDS) as acquired:
            if not acquired:
                raise UnavailableError(f"Query {query_id} is busy", hint="Try again.")
            self.runtime.resume(query_id)
        self.wake(query_id)

    @contextmanager
    def holding(self, query_ids: Iterable[str], until: float) -> Iterator[None]:
        """Keep all threads off these queries. Raises UnavailableError (E-QUERY-BUSY) if the current
        step of one does not end before `until` (monotonic clock)."""
        with ExitStack() as held:
            if not self.threaded:
                held.enter_context(self.lock)
            # Always in one order, so that two callers cannot deadlock.
            for query_id in sorted(query_ids) if self.threaded else ():
                if not held.enter_context(self._scheduler.holding(query_id, until)):
                    raise UnavailableError(f"Query {query_id} is busy", code="E-QUERY-BUSY")
            yield

    def process(self, query_id: str) -> bool:
        """Run one step of a query that the caller holds, or commit it if no step is pending.
        Returns whether anything was done."""
        step, _ = self._advance(query_id)
        if step.progress:
            return True
        before = self.runtime.reached(query_id)
        self.runtime.commit_query(query_id, self._clock())
        return before is not None and not before.committed

    # ---- waiting for work to be done ---------------------------------------------------------

    def catch_up(self, limit_ms: int) -> None:
        """Wait until all queries are idle and committed, or until `limit_ms` have passed."""
        until = time.monotonic() + limit_ms / 1000
        if self.threaded:
            self._scheduler.drain(until)
            return
        with self.lock:
            for _ in range(2):
                while time.monotonic() < until and self._step_or_await():
                    pass
                self.runtime.commit(self._clock())

    def look(self, topics: Collection[str], limit_ms: int) -> None:
        """Wait until the queries that feed these topics and linger have committed what there is, or
        until `limit_ms` have passed; they do not linger for some time then."""
        if self.threaded:
            self._scheduler.look(topics, time.monotonic() + limit_ms / 1000)

    @property
    def lingering(self) -> tuple[str, ...]:
        """The queries that let more records come."""
        return self._scheduler.lingering

    def watch(self, topics: Collection[str]) -> Callable[[], None]:
        """Let no query linger that feeds these topics, until the result is called."""
        return self._scheduler.watch(topics)

    def run_until_idle(self, until: float = math.inf) -> bool:
        """Wait until all queries are idle and committed, or until the time `until` (monotonic
        clock); returns whether anything was done, or is left."""
        if self.threaded:
            return self._scheduler.drain(until)
        worked, idle = self._run_until(until)
        return worked or not idle

    def idle_within(self, seconds: float) -> bool:
        """Without threads: run until all queries are idle and committed, or until `seconds` have
        passed; returns whether they are idle."""
        _, idle = self._run_until(time.monotonic() + seconds)
        return idle

    def _run_until(self, until: float) -> tuple[bool, bool]:
        """Whether anything was done, and whether that was all there was to do before `until`."""
        worked = False
        with self.lock:
            while True:
                worked |= self._step_until_idle(until)
                self.runtime.commit(self._clock())
                if not self._step_until_idle(until):
                    return worked, time.monotonic() < until
                worked = True

    def _step_until_idle(self, until: float) -> bool:
        worked = False
        while time.monotonic() < until and self._step_or_await():
            worked = True
        return worked

    def _step_or_await(self) -> bool:
        """Run one step, or wait for records that are being fetched; returns whether it did."""
        self._wake.clear()
        step = self.runtime.step(self._clock())
        if step.awaiting and not step.progress:
            self._wake.wait(AWAIT_S_MAX)
        return step.progress or step.awaiting

    # ---- the threads -------------------------------------------------------------------------

    def _run(self, take: Callable[[], Taken | None]) -> None:
        try:
            while (taken := take()) is not None:
                if taken.offer is not None:
                    taken.offer.run()
                    self._scheduler.end_offer()
                elif taken.commits:
                    self._commit_round(taken.query_ids)
                else:
                    self._work(taken.query_ids[0])
                if self._upkeep.acquire(blocking=False):
                    try:
                        self._maintain()
                    finally:
                        self._upkeep.release()
        except BaseException as failure:
            self.failure = failure
            self._scheduler.end()
            if self.on_failure is not None:
                self.on_failure(failure)
            raise

    def _commit_round(self, query_ids: tuple[str, ...]) -> None:
        """Commit queries together. A fault that the runtime did not foresee stops all of them."""
        try:
            self.runtime.commit_round(query_ids, self._clock())
        except BaseException as fault:
            for query_id in query_ids:
                with suppress(Exception):
                    self.runtime.fail(query_id, _as_error(fault))
        finally:
            self._scheduler.end_round(query_ids)

    def _work(self, query_id: str) -> None:
        """Run steps of a query until none is pending, its commit is due, or its time slice is
        over."""
        until = time.monotonic() + SLICE_SECONDS
        step, done, rest = Step(False, None), 0, 0
        try:
            while True:
                self._scheduler.begin(query_id)
                step, rest = self._advance(query_id, commits=not self.runtime.commits_together)
                done += step.progress
                over = rest or time.monotonic() >= until or self._scheduler.requested(query_id)
                if not step.progress or over:
                    return
        finally:
            self._scheduler.release(query_id, done, step, rest)

    def _advance(self, query_id: str, *, commits: bool = True) -> tuple[Step, int]:
        """Run one step; returns it, and for how many ms the query should leave the interpreter to
        others. A fault that the runtime did not foresee stops only this query."""
        started, computed = time.monotonic(), time.thread_time()
        self._steps.begin(query_id)
        try:
            step = self.runtime.advance(query_id, self._clock(), commits=commits)
            if self._scheduler.draining and not step.progress and not step.due:
                step = self.runtime.commit_query(query_id, self._clock(), commits=commits)
        except BaseException as fault:
            with suppress(Exception):
                self.runtime.fail(query_id, _as_error(fault))
            return Step(False, None), 0
        finally:
            self._steps.end(query_id)
        took_ms = round(1000 * (time.monotonic() - started))
        cpu_ms = round(1000 * (time.thread_time() - computed))
        return step, self.runtime.pace(query_id, step, took_ms, cpu_ms)

    # ---- the end -----------------------------------------------------------------------------

    def end(self, seconds: float) -> None:
        """Stop handing out queries. `seconds`: the time limit for everything that has to stop."""
        self._deadline = time.monotonic() + seconds
        self._scheduler.end()

    def stop(self) -> tuple[str, ...]:
        """After `end`: commit and remove all queries, each when its current step ends. Returns the
        queries whose step did not end in time; the thread of such a query closes it later."""
        for query_id in self.runtime.query_ids():
            with suppress(UnavailableError):
                self.remove(query_id)
        for thread in self._threads:
            thread.join(max(0.0, self._deadline - time.monotonic()))
        self._threads = []
        return tuple(query_id for query_id in self._detached if self._scheduler.taken(query_id))

    def after_release(self, query_id: str, action: Callable[[], None]) -> bool:
        """Call `action` when the thread of a query that did not stop releases it. Returns False if
        no thread works on the query."""
        return self._scheduler.after_release(query_id, action)


def _as_error(fault: BaseException) -> Exception:
    return fault if isinstance(fault, Exception) else MillstreamError(f"{type(fault).__name__}")

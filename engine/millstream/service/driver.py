"""The thread around the runtime: calls `Instance.step` while there is work, sleeps while not.

Everything that touches the instance holds `lock`; one step is a bounded amount of work, so a
statement waits for one batch at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from millstream.runtime.instance import Instance

IDLE_WAIT_MS_MAX = 500
AWAIT_S_MAX = 0.05
"""Asking again is cheap, and the log's word that something has come might be missed."""


class TurnLock:
    """A lock whose owner may take it again, and that goes to who has waited: without that, a
    thread that lets go only to take it at once keeps everybody out."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._held = threading.Lock()
        self._owner = 0
        self._depth = 0

    def __enter__(self) -> None:
        if self._owner != threading.get_ident():
            with self._turn:
                self._held.acquire()
            self._owner = threading.get_ident()
        self._depth += 1

    @contextmanager
    def tried(self, seconds: float) -> Iterator[None]:
        """The lock, or nothing when it cannot be had so soon: for those who only look."""
        if self._owner == threading.get_ident():
            yield
            return
        until = time.monotonic() + seconds
        if not self._turn.acquire(timeout=seconds):
            yield
            return
        try:
            had = self._held.acquire(timeout=max(0.0, until - time.monotonic()))
        finally:
            self._turn.release()
        try:
            yield
        finally:
            if had:
                self._held.release()

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = 0
            self._held.release()


class Driver:
    """Runs an instance, either in a thread of its own or when asked to."""

    def __init__(
        self, instance: Instance[Any], clock: Callable[[], int], maintain: Callable[[], object]
    ) -> None:
        """`maintain` is called often, between steps: upkeep of the log, cheap when none is due."""
        self.instance = instance
        self.lock = TurnLock()
        self.failure: BaseException | None = None
        self.on_failure: Callable[[BaseException], None] | None = None
        """Called in the thread when it dies."""
        self._clock = clock
        self._maintain = maintain
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the engine thread."""
        self._thread = threading.Thread(target=self._run, name="millstream-engine", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There may be something to do now."""
        self._wake.set()

    def catch_up(self, limit_ms: int) -> None:
        """Step until nothing is left to do and all is committed, or until `limit_ms` are over."""
        until = self._clock() + limit_ms
        with self.lock:
            for _ in range(2):
                while self._clock() < until and self._step_or_await():
                    pass
                self.instance.commit(self._clock())

    def run_until_idle(self) -> bool:
        """Step until nothing is left to do and all is committed; whether anything was done."""
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
        self._wake.clear()
        step = self.instance.step(self._clock())
        if step.awaiting and not step.progress:
            self._wake.wait(AWAIT_S_MAX)
        return step.progress or step.awaiting

    def stop(self) -> None:
        """Commit what was done and end the thread; idempotent."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def threaded(self) -> bool:
        """Whether the instance moves on its own."""
        return self._thread is not None

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._wake.clear()
                now = self._clock()
                with self.lock:
                    step = self.instance.step(now)
                    self._maintain()
                if step.progress:
                    continue
                until = IDLE_WAIT_MS_MAX if step.wake_at is None else step.wake_at - now
                self._wake.wait(max(0, min(until, IDLE_WAIT_MS_MAX)) / 1000)
        except BaseException as failure:
            self.failure = failure
            if self.on_failure is not None:
                self.on_failure(failure)
            raise

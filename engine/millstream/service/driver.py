"""The thread around the runtime: calls `Instance.step` while there is work, sleeps while not.

Everything that touches the instance holds `lock`; one step is a bounded amount of work, so a
statement waits for one batch at most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from millstream.runtime.instance import Instance

IDLE_WAIT_MS_MAX = 500


class Driver:
    """Runs an instance, either in a thread of its own or when asked to."""

    def __init__(
        self, instance: Instance[Any], clock: Callable[[], int], maintain: Callable[[], object]
    ) -> None:
        """`maintain` is called often, between steps: upkeep of the log, cheap when none is due."""
        self.instance = instance
        self.lock = threading.RLock()
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
            while self._clock() < until and self.instance.step(self._clock()).progress:
                pass
            self.instance.commit(self._clock())
            while self._clock() < until and self.instance.step(self._clock()).progress:
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
        while self.instance.step(self._clock()).progress:
            worked = True
        return worked

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

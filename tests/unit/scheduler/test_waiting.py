"""For what idle threads wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millstream.runtime.spec import Step, Subscription
from millstream.scheduler.scheduler import TIMED_WAIT_MS_MAX, Scheduler


class Idle:
    """A scheduler at the time 0 whose threads, instead of waiting, note for how long they would
    and then let something happen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waits: list[float | None] = []
        self.happens: list[Callable[[], None]] = []
        self.scheduler = Scheduler(None, lambda: 0, 100, 0)  # type: ignore[arg-type]
        monkeypatch.setattr(self.scheduler._woken, "wait", self._wait)

    def _wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        if self.happens:
            self.happens.pop(0)()
        return True

    def due(self, query_id: str, at: int) -> None:
        queue: Any = self.scheduler._queue
        queue.add(query_id, Subscription(frozenset(), frozenset(), 0), 0)
        queue.take(query_id)
        queue.release(query_id, 0, Step(False, at), committed=False)

    def idle(self) -> None:
        """A thread that finds nothing to do."""
        self.scheduler._wait(0)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> Idle:
    return Idle(monkeypatch)


def test_without_a_time_all_threads_wait_for_news(idle: Idle) -> None:
    idle.happens = [idle.idle]
    idle.idle()
    assert idle.waits == [None, None]


def test_one_thread_waits_for_the_first_time(idle: Idle) -> None:
    idle.due("A", 40)
    idle.happens = [idle.idle]
    idle.idle()
    assert idle.waits == [0.04, None]


def test_an_earlier_time_is_waited_for_by_who_finds_it(idle: Idle) -> None:
    """Otherwise a commit would wait until the first thread's time has passed."""
    idle.due("A", 400)

    def released() -> None:
        idle.due("B", 30)
        idle.idle()

    idle.happens = [released]
    idle.idle()
    assert idle.waits == [0.4, 0.03]


def test_a_far_time_is_looked_at_now_and_then(idle: Idle) -> None:
    """The clock may be set."""
    idle.due("A", 3_600_000)
    idle.idle()
    assert idle.waits == [TIMED_WAIT_MS_MAX / 1000]

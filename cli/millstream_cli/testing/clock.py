"""The simulated clock of a test. Only inserted records advance it."""

from __future__ import annotations


class TestClock:
    """Milliseconds since 1970, starting at 0. A record without ROWTIME gets the current time. Each
    record advances the clock to one millisecond after its time, if that is later."""

    __test__ = False

    def __init__(self) -> None:
        self._now = 0

    def __call__(self) -> int:
        """The current time."""
        return self._now

    def inserted(self, time: int) -> None:
        """Advance the clock past the time of an inserted record."""
        self._now = max(self._now, time + 1)

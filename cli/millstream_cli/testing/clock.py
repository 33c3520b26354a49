"""The time of day in a test: it moves with the records that are inserted, and with nothing else."""

from __future__ import annotations


class TestClock:
    """Milliseconds since 1970, from 0: a record without ROWTIME gets the time, and the next one a
    millisecond more; one with ROWTIME moves the clock there."""

    __test__ = False

    def __init__(self) -> None:
        self._now = 0

    def __call__(self) -> int:
        """The time, for the engine."""
        return self._now

    def inserted(self, time: int) -> None:
        """A record with this time is on the log."""
        self._now = max(self._now, time + 1)

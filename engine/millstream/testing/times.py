"""Times and durations as the test driver takes them."""

from __future__ import annotations

import datetime

from millstream.model.errors import StatementError
from millstream.model.event_time import LATEST

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS = datetime.timedelta(milliseconds=1)

Time = int | datetime.datetime
"""Milliseconds since 1970, or a datetime, which is UTC unless it has a time zone."""
Duration = int | datetime.timedelta
"""Milliseconds, or a timedelta."""


def time_ms(time: Time, what: str = "timestamp") -> int:
    """A time in ms since 1970. Raises TypeError, or StatementError for one that a record cannot
    have."""
    if isinstance(time, datetime.datetime):
        aware = time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
        time = (aware - _EPOCH) // _MS
    if isinstance(time, bool) or not isinstance(time, int):
        raise TypeError(f"The {what} {time!r} is neither a datetime nor an int of milliseconds")
    if not 0 <= time <= LATEST:
        raise StatementError(f"The {what} {time} is not between 0 and {LATEST} milliseconds")
    return time


def duration_ms(duration: Duration, what: str) -> int:
    """A duration in ms. Raises TypeError, or StatementError if it is negative."""
    if isinstance(duration, datetime.timedelta):
        duration = duration // _MS
    if isinstance(duration, bool) or not isinstance(duration, int):
        raise TypeError(f"{what} {duration!r} is neither a timedelta nor an int of milliseconds")
    if duration < 0:
        raise StatementError(f"{what} cannot be negative: {duration} ms")
    return duration

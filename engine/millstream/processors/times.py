"""Times of users (in UTC, without tzinfo) and milliseconds since 1970."""

from __future__ import annotations

import datetime as dt

_EPOCH = dt.datetime(1970, 1, 1)
_MS = dt.timedelta(milliseconds=1)


def as_time(ms: int) -> dt.datetime:
    """Milliseconds since 1970 as a time in UTC, without tzinfo. Raises OverflowError before the
    year 1 and after 9999."""
    return _EPOCH + dt.timedelta(milliseconds=ms)


def as_ms(time: dt.datetime) -> int:
    """The opposite of `as_time`; parts of a millisecond are cut off."""
    return (time - _EPOCH) // _MS


def length_ms(length: dt.timedelta, what: str) -> int:
    """A length in ms. Raises ValueError for less than one, TypeError for another object."""
    if not isinstance(length, dt.timedelta):
        raise TypeError(f"{what} is a timedelta, not {length!r}")
    found = length // _MS
    if found < 1:
        raise ValueError(f"{what} takes a millisecond or more, not {length}")
    return found

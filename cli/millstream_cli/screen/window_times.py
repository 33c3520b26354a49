"""The bounds of windows are numbers in the dialect; people are shown times."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from millstream.catalog.rules import WINDOW_BOUNDS
from millstream_cli.sessions.results import Row

_EPOCH = dt.datetime(1970, 1, 1)


def with_times(columns: Sequence[str], rows: Sequence[Row]) -> Sequence[Row]:
    """Rows in which the bounds of windows are times in UTC, as those of a TIMESTAMP."""
    places = frozenset(at for at, name in enumerate(columns) if name in WINDOW_BOUNDS)
    return [_timed(row, places) for row in rows] if places else rows


def _timed(row: Row, places: frozenset[int]) -> Row:
    values = [_time(value) if at in places else value for at, value in enumerate(row)]
    # A deletion stays one.
    return type(row)(values)


def _time(value: Any) -> Any:
    """A time; what lies beyond the calendar stays a number."""
    if not isinstance(value, int):
        return value
    try:
        return _EPOCH + dt.timedelta(milliseconds=value)
    except OverflowError:
        return value

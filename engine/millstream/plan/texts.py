"""Checks whether a string constant is a date, a time, a timestamp or base64, as its implicit CAST
accepts it."""

from __future__ import annotations

import base64
import binascii
import calendar
import re

from millstream.model.partial_times import (
    DATE_TEXT,
    FIRST_DATE,
    MOMENT_TEXT,
    TIME_TEXT,
)
from millstream.model.types import BYTES, DATE, TIME, TIMESTAMP, SqlType

_PATTERNS: dict[SqlType, re.Pattern[str]] = {
    TIME: re.compile(TIME_TEXT),
    TIMESTAMP: re.compile(MOMENT_TEXT),
}
_DATE = re.compile(DATE_TEXT)
_GREGORIAN_CYCLE = 400


def means(text: str, wanted: SqlType) -> bool:
    """Whether the text can be read as a value of the type; True for all other types."""
    if wanted == BYTES:
        return _is_base64(text)
    if wanted == DATE:
        return _is_date(text.strip())
    pattern = _PATTERNS.get(wanted)
    return pattern is None or pattern.fullmatch(text.strip()) is not None


def _is_date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    year, month, day = (int(part) for part in (text + FIRST_DATE[len(text) :]).split("-"))
    # Python has no year 0; the calendar repeats itself every 400 years.
    return day <= calendar.monthrange(year % _GREGORIAN_CYCLE + _GREGORIAN_CYCLE, month)[1]


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True

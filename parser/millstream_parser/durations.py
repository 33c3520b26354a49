"""Durations in text: which ones are accepted."""

from __future__ import annotations

import re

from millstream_grammar.keywords import TIME_UNITS

from .statements import Duration

LONGEST_MS = 2**62 - 1
"""Event time has 64 bits of milliseconds; timestamps and durations each use at most half the range,
so their sum never overflows."""
_TWO_WORDS = re.compile(r"\s*(\S+)\s+(\S+)\s*")
_DIGITS = re.compile(r"[0-9]+")


def read_duration(text: str) -> Duration:
    """`<number> <unit>`, longer than zero. Raises ValueError for an invalid one."""
    words = _TWO_WORDS.fullmatch(text)
    if words is None:
        raise ValueError("Expected format is: '<number> <unit>', for example '10 SECONDS'.")
    amount, unit = words.groups()
    if not _DIGITS.fullmatch(amount):
        raise ValueError(f"Size must be numeric. Got '{amount}'")
    if unit.upper() not in TIME_UNITS:
        raise ValueError(f"Unknown time unit: '{unit.upper()}'")
    digits = amount.lstrip("0")
    if not digits:
        raise ValueError("The size must be greater than zero.")
    # Bounding the length first prevents int() from converting thousands of digits.
    if len(digits) > len(str(LONGEST_MS)):
        raise ValueError(too_long(f"{amount} {unit.upper()}"))
    duration = Duration(int(digits), TIME_UNITS[unit.upper()])
    if duration.milliseconds > LONGEST_MS:
        raise ValueError(too_long(f"{amount} {unit.upper()}"))
    return duration


def too_long(what: str) -> str:
    """The message for a duration whose sum with a timestamp may overflow."""
    return f"{what} is longer than {LONGEST_MS} milliseconds."

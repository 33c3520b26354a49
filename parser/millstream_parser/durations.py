"""Lengths of time in text: which are accepted, wherever they are written."""

from __future__ import annotations

import re

from millstream_grammar.keywords import TIME_UNITS

from .statements import Duration

LONGEST_MS = 2**62 - 1
"""Event time is 64 bits of milliseconds, half of it for moments: a moment and a length that is
added to it always fit."""
_TWO_WORDS = re.compile(r"\s*(\S+)\s+(\S+)\s*")
_DIGITS = re.compile(r"[0-9]+")


def read_duration(text: str) -> Duration:
    """`<number> <unit>`, longer than nothing. ValueError says what is wrong with it."""
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
    # Bounding the length first keeps int() from converting thousands of digits.
    if len(digits) > len(str(LONGEST_MS)):
        raise ValueError(too_long(f"{amount} {unit.upper()}"))
    duration = Duration(int(digits), TIME_UNITS[unit.upper()])
    if duration.milliseconds > LONGEST_MS:
        raise ValueError(too_long(f"{amount} {unit.upper()}"))
    return duration


def too_long(what: str) -> str:
    """The message for a length of time that may not fit when it is added to a moment."""
    return f"{what} is longer than {LONGEST_MS} milliseconds."

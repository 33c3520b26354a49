"""Dates and times in ISO 8601, in every year that a TIMESTAMP or DATE can hold.

Python has no dates outside the years 1 to 9999. Their text follows `java.time`, as in ksqlDB: a
year has at least four digits, with a sign from 10000 on and below 0 (year 0 is the one before 1).
"""

from __future__ import annotations

import datetime
import re

from millstream.model.java_time import civil_from_days

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_DAY = datetime.date(1970, 1, 1)
_DAY_US = 86_400_000_000
_DUCKDB = re.compile(r"([0-9]+)(-[0-9]{2}-[0-9]{2})( \(BC\))?(?: ([0-9:]{8})(\.[0-9]{3})?[0-9]*)?")


def iso_date(days: int) -> str:
    """The text of a DATE, in days since 1970."""
    try:
        return (_EPOCH_DAY + datetime.timedelta(days)).isoformat()
    except OverflowError:
        year, month, day = civil_from_days(days)
        return f"{_year(year)}-{month:02}-{day:02}"


def iso_timestamp(micros: int) -> str:
    """The text of a TIMESTAMP, in microseconds since 1970; with milliseconds."""
    try:
        found = _EPOCH + datetime.timedelta(microseconds=micros)
        return found.isoformat(timespec="milliseconds")
    except OverflowError:
        days, of_day = divmod(micros, _DAY_US)
        time = (_EPOCH + datetime.timedelta(microseconds=of_day)).isoformat(timespec="milliseconds")
        return iso_date(days) + time[len("1970-01-01") :]


def iso_of_duckdb(text: str) -> str:
    """The same for the text that DuckDB returns where Python has no value."""
    found = _DUCKDB.fullmatch(text)
    assert found is not None, text
    year, rest, before_christ, clock, millis = found.groups()
    date = _year(1 - int(year) if before_christ else int(year)) + rest
    return date if clock is None else f"{date}T{clock}{millis or '.000'}"


def _year(year: int) -> str:
    if year > 9999:
        return f"+{year}"
    return f"-{-year:04}" if year < 0 else f"{year:04}"

"""Java's date-time patterns (`yyyy-MM-dd'T'HH:mm:ssX`): reading and writing text with them.

The dialect takes its time patterns from `java.time.format.DateTimeFormatter`. A pattern is compiled
once (`compile_pattern`). Parts that the pattern of a timestamp lacks default to those of
1970-01-01T00:00 in its zone.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

from millstream.model.errors import RecordError
from millstream.model.java_days import (
    civil_from_days,
    clock_fields,
    date_fields,
    days_from_civil,
    year_length,
)
from millstream.model.java_pattern import TimePattern, compile_pattern
from millstream.model.java_plain import plain_reader
from millstream.model.java_read import read
from millstream.model.java_resolve import Resolved, checked, resolve
from millstream.model.java_write import Moment, write
from millstream.model.java_zones import UTC, offset_ms, settle

__all__ = [
    "TimePattern",
    "civil_from_days",
    "compile_pattern",
    "days_from_civil",
    "format_date",
    "format_time",
    "format_timestamp",
    "parse_date",
    "parse_time",
    "parse_timestamp",
]

_DAY_MS = 86_400_000
_LATEST_MS = 2**63 - 1
_DATE_LETTERS = frozenset("uyGMdDEF")


def parse_timestamp(pattern: TimePattern, text: str, zone: datetime.tzinfo = UTC) -> int:
    """Milliseconds since the epoch; `zone` applies where the text has none. Raises RecordError."""
    plain = plain_reader(pattern.text)
    known = None if plain is None else plain(text)
    if known is not None and known.offset is not None:
        return known.local - known.offset * 1000
    if known is not None and isinstance(zone, datetime.timezone):
        return known.local - offset_ms(zone, known.local, is_local=False)
    return _parse_timestamp(pattern, text, zone)


def _parse_timestamp(pattern: TimePattern, text: str, zone: datetime.tzinfo) -> int:
    found = resolve(read(pattern, text))
    if found.days is None or found.nanos is None:
        millis = _filled(found, zone)
    else:
        local = found.days * _DAY_MS + found.nanos // 1_000_000
        if found.zone is not None:
            millis = local - offset_ms(found.zone, local, is_local=True)
        elif isinstance(zone, datetime.timezone):
            millis = local - offset_ms(zone, local, is_local=False)
        else:
            millis = _filled(found, zone)
    if not -_LATEST_MS <= millis <= _LATEST_MS:
        raise RecordError(f"The time '{text}' is too far away")
    return millis


def parse_date(pattern: TimePattern, text: str) -> int:
    """Days since the epoch. Raises RecordError where the text does not match or has no whole
    date."""
    days = resolve(read(pattern, text)).days
    if days is None:
        raise RecordError(f"The text '{text}' has no whole date by the format '{pattern.text}'")
    return days


def parse_time(pattern: TimePattern, text: str) -> int:
    """Nanoseconds since midnight. Raises RecordError where the text does not match, has no time of
    day, or has a part of a date."""
    found = resolve(read(pattern, text))
    if found.nanos is None:
        raise RecordError(f"The text '{text}' has no time of day by the format '{pattern.text}'")
    if found.days is not None or found.fields.keys() & _DATE_LETTERS:
        raise RecordError(f"The time format '{pattern.text}' of a time of day has a date")
    return found.nanos


def format_timestamp(pattern: TimePattern, millis: int, zone: datetime.tzinfo = UTC) -> str:
    """The text of an instant, in local time of `zone`."""
    days, of_day = divmod(millis + offset_ms(zone, millis, is_local=False), _DAY_MS)
    fields = date_fields(days) | clock_fields(of_day * 1_000_000)
    return write(pattern.parts, Moment(fields, zone, millis))


def format_date(pattern: TimePattern, days: int) -> str:
    """The text of a date. Raises RecordError when the pattern has a time or a zone."""
    return write(pattern.parts, Moment(date_fields(days)))


def format_time(pattern: TimePattern, nanos: int) -> str:
    """The text of a time of day. Raises RecordError when the pattern has a date or a zone."""
    return write(pattern.parts, Moment(clock_fields(nanos)))


def _filled(found: Resolved, zone: datetime.tzinfo) -> int:
    """The instant of the fields in the zone's local time; missing ones default to 1970-01-01.

    As in ksqlDB the fields are set one after the other, from the nanosecond up to the era, and each
    step results in a valid local time: a skipped one moves forward, a repeated one keeps the offset
    of the step before.
    """
    zone = found.zone or zone
    local, offset = settle(zone, 0, 0)
    fields = dict(found.fields)
    if found.nanos is not None:
        local, offset = settle(zone, local + found.nanos // 1_000_000, offset)
    if found.days is not None:
        fields |= date_fields(found.days) | {"day": found.days}
    if fields.get("D") == 366:
        if "u" not in fields:
            raise RecordError("The 366th day of a year needs the year")
        local, offset = settle(zone, _STEPS["u"](local, fields["u"]), offset)
    for letter, step in _STEPS.items():
        if letter in fields:
            local, offset = settle(zone, step(local, fields[letter]), offset)
    return local - offset


def _within(letter: str, unit: int) -> Callable[[int, int], int]:
    """Set a field that counts from 0 in units of `unit` milliseconds, in its next larger unit."""

    def step(local: int, value: int) -> int:
        of_day = local % _DAY_MS
        known = clock_fields(of_day * 1_000_000)[letter]
        return local + (checked(letter, value) - known) * unit

    return step


def _nanos(local: int, value: int) -> int:
    return local // 1000 * 1000 + checked("n", value) // 1_000_000


def _of_day(letter: str) -> Callable[[int, int], int]:
    """Move by days until a field of the date that counts days has the value."""

    def step(local: int, value: int) -> int:
        known = date_fields(local // _DAY_MS)[letter]
        return local + (checked(letter, value) - known) * _DAY_MS

    return step


def _day_of_month(local: int, value: int) -> int:
    days = local // _DAY_MS
    year, month, _ = civil_from_days(days)
    moved = days_from_civil(year, month, 1) + checked("d", value) - 1
    if civil_from_days(moved)[1] != month:
        raise RecordError(f"Invalid day of month {value}")
    return local + (moved - days) * _DAY_MS


def _day_of_year(local: int, value: int) -> int:
    year = civil_from_days(local // _DAY_MS)[0]
    if checked("D", value) > year_length(year):
        raise RecordError(f"Invalid date: {year} is not a leap year")
    return _of_day("D")(local, value)


def _on(local: int, year: int, month: int) -> int:
    """The same day in another year and month, or the last day of that month."""
    days, of_day = divmod(local, _DAY_MS)
    first = days_from_civil(year, month, 1)
    last = days_from_civil(year + month // 12, month % 12 + 1, 1) - 1
    return min(first + civil_from_days(days)[2] - 1, last) * _DAY_MS + of_day


def _month(local: int, value: int) -> int:
    return _on(local, civil_from_days(local // _DAY_MS)[0], checked("M", value))


def _year(local: int, value: int) -> int:
    return _on(local, checked("u", value), civil_from_days(local // _DAY_MS)[1])


def _era(local: int, value: int) -> int:
    year, month, _ = civil_from_days(local // _DAY_MS)
    return local if int(year > 0) == checked("G", value) else _on(local, 1 - year, month)


_STEPS: dict[str, Callable[[int, int], int]] = {
    "n": _nanos,
    "s": _within("s", 1000),
    "m": _within("m", 60_000),
    "K": _within("K", 3_600_000),
    "H": _within("H", 3_600_000),
    "a": _within("a", 43_200_000),
    "E": _of_day("E"),
    "F": _of_day("F"),
    "d": _day_of_month,
    "D": _day_of_year,
    "day": lambda local, value: value * _DAY_MS + local % _DAY_MS,
    "M": _month,
    "u": _year,
    "G": _era,
}
"""The setter of each field, in the order of application."""

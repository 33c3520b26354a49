"""Resolves parsed fields to a date and a time of day, as Java's SMART resolver does.

A day beyond the end of its month is the month's last, 24:00 is the next midnight, and contradictory
fields are refused.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from millstream.model.errors import RecordError
from millstream.model.java_days import (
    clock_fields,
    date_fields,
    days_from_civil,
    week_year_start,
    weekday_from_sunday,
    year_length,
)
from millstream.model.java_names import PERIOD_MINUTES, in_period
from millstream.model.java_read import Fields, Found
from millstream.model.java_zones import fixed_zone

_YEARS = 999_999_999
_RANGES = {
    "u": (-_YEARS, _YEARS),
    "Y": (-_YEARS, _YEARS),
    "y": (1, _YEARS + 1),
    "G": (0, 1),
    "M": (1, 12),
    "d": (1, 31),
    "D": (1, 366),
    "E": (1, 7),
    "e": (1, 7),
    "F": (1, 7),
    "W": (0, 6),
    "w": (0, 54),
    "g": (-365_243_219_162 + 40_587, 365_241_780_471 + 40_587),
    "H": (0, 23),
    "k": (1, 24),
    "K": (0, 11),
    "h": (1, 12),
    "a": (0, 1),
    "m": (0, 59),
    "s": (0, 59),
    "n": (0, 999_999_999),
    "N": (0, 86_399_999_999_999),
    "A": (0, 86_399_999),
}
_HOUR_NANOS = 3_600_000_000_000
_TIME = frozenset("HkKhamsnNA")


@dataclass(frozen=True, slots=True)
class Resolved:
    """A date in days and a time in nanoseconds, if the text has them; else its other fields."""

    fields: Fields
    days: int | None
    nanos: int | None
    zone: datetime.tzinfo | None


def checked(letter: str, value: int) -> int:
    """The value of a field. Raises RecordError where the field cannot have it."""
    low, high = _RANGES[letter]
    if not low <= value <= high:
        raise RecordError(f"Invalid value for '{letter}' (valid values {low} - {high}): {value}")
    return value


def resolve(found: Found) -> Resolved:
    """The date and the time in the fields. Raises RecordError for an invalid one."""
    work = _Work(dict(found.fields), found.period)
    work.dates()
    work.times()
    work.weeks()
    excess = work.time_of_day()
    work.compare()
    days = work.days
    if days is not None and work.nanos is not None:
        days += excess
    zone = found.zone
    if "X" in work.fields:
        ahead = fixed_zone(work.fields["X"])
        # The offset determines the instant, even if the zone has another offset.
        if zone is None or (days is not None and work.nanos is not None):
            zone = ahead
    return Resolved(work.fields, days, work.nanos, zone)


class _Work:
    def __init__(self, fields: Fields, period: int | None) -> None:
        self.fields = fields
        self._period = period
        self.days: int | None = None
        self.nanos: int | None = None

    def _take(self, letter: str) -> int:
        return checked(letter, self.fields.pop(letter))

    def _update(self, letter: str, value: int) -> None:
        if self.fields.setdefault(letter, value) != value:
            raise RecordError(f"Conflict found: '{letter}' {self.fields[letter]} differs: {value}")

    def _date(self, days: int) -> None:
        if self.days is not None and self.days != days:
            raise RecordError("Conflict found: two different dates")
        self.days = days

    def dates(self) -> None:
        """A date from year, month and day, or year and day of the year."""
        fields = self.fields
        if "y" in fields:
            of_era = self._take("y")
            era = self._take("G") if "G" in fields else None
            is_after = era == 1 if era is not None else fields.get("u", 1) > 0
            self._update("u", of_era if is_after else 1 - of_era)
        elif "G" in fields:
            checked("G", fields["G"])
        if "u" not in fields:
            return
        if "M" in fields and "d" in fields:
            year, month, day = self._take("u"), self._take("M"), self._take("d")
            first = days_from_civil(year, month, 1)
            last = days_from_civil(year + month // 12, month % 12 + 1, 1) - 1
            self._date(min(first + day - 1, last))
        elif "D" in fields:
            year, day = self._take("u"), self._take("D")
            if day > year_length(year):
                raise RecordError(f"Invalid date: {year} is not a leap year")
            self._date(days_from_civil(year, 1, 1) + day - 1)

    def weeks(self) -> None:
        """A date from weeks, which begin on Sunday; the first one of a year contains 1 January."""
        fields = self.fields
        if "e" in fields:
            fields["E"] = (self._take("e") + 5) % 7 + 1
        if "g" in fields:
            self._date(self._take("g") - 40_587)
        if "E" not in fields:
            return
        of_week = checked("E", fields["E"]) % 7
        if "u" in fields:
            if "M" in fields and "W" in fields:
                first = days_from_civil(self._take("u"), self._take("M"), 1)
                sunday = first - weekday_from_sunday(first)
                del fields["E"]
                self._date(sunday + (self._take("W") - 1) * 7 + of_week)
        elif "Y" in fields and "w" in fields:
            year, week = self._take("Y"), self._take("w")
            start = week_year_start(year)
            weeks = (days_from_civil(year + 1, 1, 1) - start) // 7
            del fields["E"]
            self._date(start + (min(week, max(weeks, 1)) - 1) * 7 + of_week)

    def times(self) -> None:
        """Hour, minute, second and nanosecond from the other fields of time."""
        fields = self.fields
        if "k" in fields:
            hour = fields.pop("k")
            self._update("H", (checked("k", hour) if hour else 0) % 24)
        if "h" in fields:
            hour = fields.pop("h")
            self._update("K", (checked("h", hour) if hour else 0) % 12)
        if "a" in fields and "K" in fields:
            self._update("H", self._take("a") * 12 + self._take("K"))
        if "N" in fields:
            self._split(self._take("N"))
        if "A" in fields:
            nanos = self._take("A") * 1_000_000
            self._split(nanos + fields.get("n", 0) % 1_000_000)
        if self._period is not None and "K" in fields:
            hour = self._take("K")
            is_later = in_period(self._period, (hour + 12) * 60 + fields.get("m", 0))
            self._update("H", hour + 12 * is_later)

    def _split(self, nanos: int) -> None:
        self._update("H", nanos // _HOUR_NANOS)
        self._update("m", nanos // 60_000_000_000 % 60)
        self._update("s", nanos // 1_000_000_000 % 60)
        self._update("n", nanos % 1_000_000_000)

    def time_of_day(self) -> int:
        """The time of day, with missing parts as 0; also returns the excess days."""
        fields, excess = self.fields, 0
        if not fields.keys() & set("Hmsn"):
            if self._period is not None:
                low, high = PERIOD_MINUTES[self._period]
                middle = (low + high) // 2 % 1440
                fields["H"], fields["m"] = divmod(middle, 60)
            elif "a" in fields:
                fields["H"] = self._take("a") * 12 + 6
        lacks = "n" in fields and not fields.keys() >= {"m", "s"} and "m" in fields
        if "H" in fields and not lacks and ("m" in fields or not fields.keys() & {"s", "n"}):
            units = [fields.pop(letter, 0) for letter in "Hmsn"]
            if units == [24, 0, 0, 0]:
                units, excess = [0, 0, 0, 0], 1
            hour, minute, second, nano = map(checked, "Hmsn", units)
            self.nanos = ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nano
            if self._period is not None and not in_period(self._period, hour * 60 + minute):
                raise RecordError("Conflict found: the time is not in that period of the day")
        for letter in fields.keys() & _TIME:
            checked(letter, fields[letter])
        return excess

    def compare(self) -> None:
        """Refuse fields that the date or the time contradicts."""
        known: Fields = {}
        if self.days is not None:
            known |= date_fields(self.days)
        if self.nanos is not None:
            known |= clock_fields(self.nanos)
        for letter in self.fields.keys() & known.keys():
            if self.fields[letter] != known[letter]:
                raise RecordError(
                    f"Conflict found: '{letter}' {self.fields[letter]} differs from"
                    f" {known[letter]} of the rest"
                )
            del self.fields[letter]

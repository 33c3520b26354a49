"""Java's date-time patterns (`yyyy-MM-dd'T'HH:mm:ssX`): reading and writing text with them.

The dialect takes its time patterns from `java.time.format.DateTimeFormatter`. A pattern is
compiled once (`compile_pattern`) into a regular expression for reading and a list of parts for
writing. Reading ignores case; parts that the pattern lacks default to 1970-01-01T00:00; a day
beyond the end of its month becomes the last day of the month, as in Java's SMART mode.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from millstream.model.errors import RecordError
from millstream.model.java_pattern import (
    DAYS,
    MONTHS,
    READABLE,
    ZONE_LETTERS,
    Part,
    TimePattern,
    compile_pattern,
)
from millstream.model.java_zones import UTC, offset_ms, parse_zone, zone_text

__all__ = [
    "TimePattern",
    "civil_from_days",
    "compile_pattern",
    "days_from_civil",
    "format_date",
    "format_time",
    "format_timestamp",
    "parse_date",
    "parse_lenient_date",
    "parse_time",
    "parse_timestamp",
]

_DAY_MS = 86_400_000

Fields = dict[str, int]
"""Values by pattern letter, `y` for every year, `n` for every fraction of a second."""


def parse_timestamp(pattern: TimePattern, text: str, zone: datetime.tzinfo = UTC) -> int:
    """Milliseconds since the epoch; `zone` counts where the text names none. RecordError."""
    fields, own_zone = _fields(pattern, text)
    local = _epoch_day(fields, text) * _DAY_MS + _nano_of_day(fields, text) // 1_000_000
    return local - offset_ms(zone if own_zone is None else own_zone, local, is_local=True)


def parse_date(pattern: TimePattern, text: str) -> int:
    """Days since the epoch. RecordError where the text does not match."""
    return _epoch_day(_fields(pattern, text)[0], text)


def parse_lenient_date(pattern: TimePattern, text: str) -> int:
    """Days since the epoch as Java's older SimpleDateFormat reads them: more text may follow, and
    a month or day beyond the last one counts on. RecordError where the text does not match or
    shows another time of day than midnight."""
    fields, _ = _fields(pattern, text, open_end=True)
    if any(fields.get(letter, 0) for letter in "hKmsnAN") or fields.get("H", 0) % 24:
        raise RecordError(f"'{text}' is read as a date, but has a time of day")
    if "D" in fields:
        return _epoch_day(fields | {"D": 1}, text) + fields["D"] - 1
    months = fields.get("M", 1) - 1
    start = fields | {"M": months % 12 + 1, "d": 1, "y": fields.get("y", 1970) + months // 12}
    return _epoch_day(start, text) + fields.get("d", 1) - 1


def parse_time(pattern: TimePattern, text: str) -> int:
    """Nanoseconds since midnight. RecordError where the text does not match."""
    return _nano_of_day(_fields(pattern, text)[0], text)


def format_timestamp(pattern: TimePattern, millis: int, zone: datetime.tzinfo = UTC) -> str:
    """The text of an instant, as clocks in `zone` show it."""
    offset = offset_ms(zone, millis, is_local=False)
    days, of_day = divmod(millis + offset, _DAY_MS)
    return _write(pattern.parts, _clock(days, of_day * 1_000_000), zone, millis)


def format_date(pattern: TimePattern, days: int) -> str:
    """The text of a date. RecordError when the pattern asks for a time or a zone."""
    if pattern.has_time or pattern.has_zone:
        raise RecordError(f"A DATE has no time of day, which the format '{pattern.text}' shows")
    return _write(pattern.parts, _clock(days, 0), UTC, days * _DAY_MS)


def format_time(pattern: TimePattern, nanos: int) -> str:
    """The text of a time of day. RecordError when the pattern asks for a date or a zone."""
    if pattern.has_date or pattern.has_zone:
        raise RecordError(f"A TIME has no date, which the format '{pattern.text}' shows")
    return _write(pattern.parts, _clock(0, nanos), UTC, nanos // 1_000_000)


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a date in the proleptic Gregorian calendar, any year."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (month <= 2), month, day


def _fields(
    pattern: TimePattern, text: str, *, open_end: bool = False
) -> tuple[Fields, datetime.tzinfo | None]:
    match = (pattern.regex.match if open_end else pattern.regex.fullmatch)(text)
    if match is None:
        raise RecordError(f"The text '{text}' does not match the time format '{pattern.text}'")
    fields: Fields = {}
    zone: datetime.tzinfo | None = None
    for part, found in zip(pattern.groups, match.groups(), strict=True):
        if found is None:
            continue
        if part.letter in ZONE_LETTERS:
            zone = parse_zone(found)
        elif part.letter not in READABLE:
            raise RecordError(
                f"Cannot read '{text}': the letter '{part.letter}' of the time format"
                f" '{pattern.text}' can be written only"
            )
        else:
            _read(part, found, fields)
    return fields, zone


def _read(part: Part, found: str, fields: Fields) -> None:
    letter = part.letter
    match letter:
        case "u" | "y":
            fields["y"] = int(found) + (2000 if part.count == 2 else 0)
        case "M" | "L":
            if part.count == 5:
                return
            month = found[:3].title()
            fields["M"] = (
                int(found) if found.isdigit() else 1 + [name[:3] for name in MONTHS].index(month)
            )
        case "S":
            fields["n"] = int(found.ljust(9, "0")[:9])
        case "a":
            fields["a"] = int(found.upper() == "PM")
        case "G":
            fields["G"] = int(found.upper().startswith("A"))
        case "E":
            return
        case "Q" | "q":
            fields["Q"] = int(next(char for char in found if char.isdigit()))
        case _:
            fields[letter] = int(found)


def _in_range(name: str, value: int, low: int, high: int, text: str) -> int:
    if not low <= value <= high:
        raise RecordError(f"Invalid {name} {value} in '{text}', it must be {low} to {high}")
    return value


def _epoch_day(fields: Mapping[str, int], text: str) -> int:
    year = fields.get("y", 1970)
    if fields.get("G") == 0:
        year = 1 - year
    if "D" in fields and "M" not in fields:
        return days_from_civil(year, 1, 1) + _in_range("day", fields["D"], 1, 366, text) - 1
    month = fields.get("M", 3 * fields["Q"] - 2 if "Q" in fields else 1)
    _in_range("month", month, 1, 12, text)
    day = _in_range("day", fields.get("d", 1), 1, 31, text)
    last = days_from_civil(year + month // 12, month % 12 + 1, 1) - days_from_civil(year, month, 1)
    # A lone 29 February has no year that could refuse it: count it as in a leap year.
    if "y" not in fields and month == 2 and day == 29:
        last, year = 29, 1972
    end_of_day = fields.get("H") == 24
    return days_from_civil(year, month, min(day, last)) + end_of_day


def _nano_of_day(fields: Mapping[str, int], text: str) -> int:
    if "N" in fields:
        return _in_range("nano of day", fields["N"], 0, _DAY_MS * 1_000_000 - 1, text)
    if "A" in fields:
        return _in_range("milli of day", fields["A"], 0, _DAY_MS - 1, text) * 1_000_000
    afternoon = 12 * fields.get("a", 0)
    minute = _in_range("minute", fields.get("m", 0), 0, 59, text)
    second = _in_range("second", fields.get("s", 0), 0, 59, text)
    if "H" in fields:
        hour = fields["H"]
        midnight = hour == 24 and minute == 0 and second == 0 and not fields.get("n")
        hour = 0 if midnight else _in_range("hour", hour, 0, 23, text)
    elif "k" in fields:
        hour = _in_range("hour", fields["k"], 1, 24, text) % 24
    elif "h" in fields:
        hour = _in_range("hour", fields["h"], 1, 12, text) % 12 + afternoon
    else:
        hour = _in_range("hour", fields.get("K", 0), 0, 11, text) + afternoon
    return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + fields.get("n", 0)


def _clock(days: int, nanos: int) -> Fields:
    year, month, day = civil_from_days(days)
    seconds, nano = divmod(nanos, 1_000_000_000)
    hour, rest = divmod(seconds, 3600)
    first = days_from_civil(year, 1, 1)
    weekday = (days + 3) % 7
    fields = {"y": year, "M": month, "d": day, "D": days - first + 1, "E": weekday}
    # Weeks start on Sunday and the first one of a year holds 1 January, as in the US locale.
    sunday = days - (weekday + 1) % 7
    week_year = civil_from_days(sunday + 6)[0]
    new_year = days_from_civil(week_year, 1, 1)
    sunday_of_month = days - day + 1 - (days - day + 5) % 7
    fields |= {"F": (day - 1) % 7 + 1, "W": (days - sunday_of_month) // 7 + 1}
    fields |= {"Y": week_year, "w": (sunday + 6 - new_year) // 7 + 1, "e": (weekday + 1) % 7 + 1}
    fields |= {"H": hour, "k": hour or 24, "K": hour % 12, "h": hour % 12 or 12, "a": hour // 12}
    fields |= {"m": rest // 60, "s": rest % 60, "n": nano, "N": nanos, "A": nanos // 1_000_000}
    return fields | {"Q": (month + 2) // 3, "G": int(year > 0)}


def _write(
    parts: tuple[Part, ...], clock: Mapping[str, int], zone: datetime.tzinfo, millis: int
) -> str:
    found = []
    for part in parts:
        if part.optional:
            found.append(_write(part.optional, clock, zone, millis))
        elif part.letter in ZONE_LETTERS:
            found.append(zone_text(part.letter, part.count, zone, millis))
        elif part.letter:
            found.append(_write_letter(part, clock))
        else:
            found.append(part.text)
    return "".join(found)


def _write_letter(part: Part, clock: Mapping[str, int]) -> str:
    letter, count = part.letter, part.count
    match letter:
        case "u" | "y" | "Y":
            year = clock["Y" if letter == "Y" else "y"]
            year = 1 - year if letter == "y" and year <= 0 else year
            if count == 2:
                return f"{year % 100:02d}"
            sign = "-" if year < 0 else "+" if count >= 4 and year >= 10**count else ""
            return f"{sign}{abs(year):0{count}d}"
        case "M" | "L" if count >= 3:
            return _name(MONTHS[clock["M"] - 1], count)
        case "E":
            return _name(DAYS[clock["E"]], count)
        case "e" | "c" if count >= 3:
            return _name(DAYS[clock["E"]], count)
        case "Q" | "q" if count >= 3:
            number = clock["Q"]
            ordinal = f"{number}{('st', 'nd', 'rd', 'th')[number - 1]} quarter"
            return {3: f"Q{number}", 4: ordinal}.get(count, str(number))
        case "a":
            return ("AM", "PM")[clock["a"]]
        case "G":
            names = ("BC", "Before Christ", "B"), ("AD", "Anno Domini", "A")
            return names[clock["G"]][0 if count < 4 else count - 3]
        case "S":
            return f"{clock['n']:09d}"[:count].ljust(count, "0")
    key = {"L": "M", "q": "Q", "c": "e"}.get(letter, letter)
    return f"{clock[key]:0{count}d}"


def _name(name: str, count: int) -> str:
    return name[:3] if count <= 3 else name if count == 4 else name[0]

"""Days of the calendar and times of a day by the fields of Java's patterns."""

from __future__ import annotations

_DAY_NANOS = 86_400_000_000_000


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


def year_length(year: int) -> int:
    """Days of a year."""
    return days_from_civil(year + 1, 1, 1) - days_from_civil(year, 1, 1)


def weekday_from_sunday(days: int) -> int:
    """0 on Sundays to 6 on Saturdays."""
    return (days + 4) % 7


def week_year_start(year: int) -> int:
    """The Sunday on or before 1 January: the first day of the year counted in weeks."""
    first = days_from_civil(year, 1, 1)
    return first - weekday_from_sunday(first)


def date_fields(days: int) -> dict[str, int]:
    """The fields of a date. Weeks are those of the US, from Sunday on, where the first one of a
    year or a month contains its first day."""
    year, month, day = civil_from_days(days)
    of_week = weekday_from_sunday(days)
    sunday = days - of_week
    week_year = civil_from_days(sunday + 6)[0]
    first = days - day + 1
    return {
        "u": year,
        "y": year if year > 0 else 1 - year,
        "G": int(year > 0),
        "M": month,
        "d": day,
        "D": days - days_from_civil(year, 1, 1) + 1,
        "Q": (month + 2) // 3,
        "E": of_week or 7,
        "e": of_week + 1,
        "F": (day - 1) % 7 + 1,
        "W": (days - first + weekday_from_sunday(first)) // 7 + 1,
        "Y": week_year,
        "w": (days - week_year_start(week_year)) // 7 + 1,
        "g": days + 40_587,
    }


def clock_fields(nanos: int) -> dict[str, int]:
    """The fields of a time of day in nanoseconds. `B` is the minute of the day."""
    seconds, nano = divmod(nanos, 1_000_000_000)
    hour, rest = divmod(seconds, 3600)
    return {
        "H": hour,
        "k": hour or 24,
        "K": hour % 12,
        "h": hour % 12 or 12,
        "a": hour // 12,
        "m": rest // 60,
        "s": rest % 60,
        "n": nano,
        "N": nanos,
        "A": nanos // 1_000_000,
        "B": seconds // 60,
    }

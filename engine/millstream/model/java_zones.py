"""Time zones with Java's names, parsing and formatting."""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo

from millstream.model.errors import RecordError
from millstream.model.java_pattern import Offset

UTC: datetime.tzinfo = datetime.timezone.utc  # noqa: UP017 - the tzinfo type is wanted here

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d)(?::?(\d\d))?)?", re.IGNORECASE)
_NAMES = {
    "America/Los_Angeles": ("Pacific Standard Time", "Pacific Daylight Time", "PST", "PDT"),
    "America/Denver": ("Mountain Standard Time", "Mountain Daylight Time", "MST", "MDT"),
    "America/Chicago": ("Central Standard Time", "Central Daylight Time", "CST", "CDT"),
    "America/New_York": ("Eastern Standard Time", "Eastern Daylight Time", "EST", "EDT"),
    "America/Anchorage": ("Alaska Standard Time", "Alaska Daylight Time", "AKST", "AKDT"),
    "Pacific/Honolulu": (
        "Hawaii-Aleutian Standard Time",
        "Hawaii-Aleutian Daylight Time",
        "HST",
        "HDT",
    ),
    "Europe/London": ("Greenwich Mean Time", "British Summer Time", "GMT", "BST"),
    "Europe/Paris": (
        "Central European Standard Time",
        "Central European Summer Time",
        "CET",
        "CEST",
    ),
    "Europe/Athens": (
        "Eastern European Standard Time",
        "Eastern European Summer Time",
        "EET",
        "EEST",
    ),
    "Europe/Moscow": ("Moscow Standard Time", "Moscow Summer Time", "MSK", "MSD"),
    "Asia/Kolkata": ("India Standard Time", "India Summer Time", "IST", "IST"),
    "Asia/Tokyo": ("Japan Standard Time", "Japan Daylight Time", "JST", "JDT"),
    "Asia/Shanghai": ("China Standard Time", "China Daylight Time", "CST", "CDT"),
    "Australia/Sydney": (
        "Australian Eastern Standard Time",
        "Australian Eastern Daylight Time",
        "AEST",
        "AEDT",
    ),
    "UTC": ("Coordinated Universal Time", "Coordinated Universal Time", "UTC", "UTC"),
}
_YEAR_400_MS = 146_097 * 86_400_000
_GENERIC = {
    "America/Los_Angeles": ("Pacific Time", "PT"),
    "America/Denver": ("Mountain Time", "MT"),
    "America/Chicago": ("Central Time", "CT"),
    "America/New_York": ("Eastern Time", "ET"),
    "America/Anchorage": ("Alaska Time", "AKT"),
    "Pacific/Honolulu": ("Hawaii-Aleutian Time", "HST"),
    "Europe/London": ("British Time", "BT"),
    "Europe/Paris": ("Central European Time", "CET"),
    "Europe/Athens": ("Eastern European Time", "EET"),
    "Europe/Moscow": ("Moscow Time", "MT"),
    "Asia/Kolkata": ("India Time", "IT"),
    "Asia/Tokyo": ("Japan Time", "JT"),
    "Asia/Shanghai": ("China Time", "CT"),
    "Australia/Sydney": ("Eastern Australia Time", "AET"),
}
"""Zone names that are the same in summer and winter (letter v)."""
ID_OFFSET = Offset("Z", colon=True, has_seconds=True)
"""The offset in a zone's id."""
_ANCIENT_MS = -60_000_000_000_000


@functools.lru_cache(maxsize=2048)
def parse_zone(text: str) -> datetime.tzinfo:
    """A zone by its id (`Europe/Oslo`), offset (`+01:00`, `UTC+1`, `Z`) or usual name (`PST`).

    Raises RecordError for an unknown one.
    """
    upper = text.upper()
    if upper in ("Z", "UTC", "UT", "GMT", "ZULU"):
        return UTC
    offset = _OFFSET.fullmatch(text)
    if offset is not None:
        hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
        if hours > 18 or minutes > 59 or seconds > 59:
            raise RecordError(f"Zone offset '{text}' is not within -18:00 and +18:00")
        delta = datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return datetime.timezone(-delta if offset.group(1) == "-" else delta)
    for zone_id, names in _NAMES.items():
        if upper in (name.upper() for name in names) or upper == zone_id.upper():
            return UTC if zone_id == "UTC" else zoneinfo.ZoneInfo(zone_id)
    try:
        return zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise RecordError(f"Unknown time-zone ID: {text}") from error


def fixed_zone(seconds: int) -> datetime.tzinfo:
    """The zone with a fixed offset from UTC. Raises RecordError beyond 18 hours."""
    if abs(seconds) > 18 * 3600:
        raise RecordError("Zone offset is not within -18:00 and +18:00")
    return datetime.timezone(datetime.timedelta(seconds=seconds)) if seconds else UTC


@functools.cache
def _known() -> tuple[frozenset[str], frozenset[str]]:
    """Ids and names of zones in lower case. Java has no zones of these three ids."""
    ids = frozenset(zoneinfo.available_timezones()) - {"EST", "MST", "HST"}
    names = {name for several in _NAMES.values() for name in several}
    return frozenset(map(str.lower, ids)), frozenset(map(str.lower, ids | names))


_ZONE_WORD = re.compile(r"[A-Za-z][A-Za-z0-9/_+: -]*")


def longest_name(text: str, at: int, *, with_names: bool) -> str:
    """The longest id of a zone that begins at an index, or the longest name; or ""."""
    match = _ZONE_WORD.match(text, at)
    if match is None:
        return ""
    known = _known()[with_names]
    word = match[0].lower()
    for end in range(len(word), 0, -1):
        if word[:end] in known:
            return match[0][:end]
    return "Z" if word[0] == "z" else ""


def _near(millis: int) -> datetime.datetime:
    """A time within the range of datetime, in UTC, with the same zone offsets: rules repeat every
    400 years, and there were none in the distant past."""
    shifted = max(millis, _ANCIENT_MS) if millis < 2.5e14 else millis % _YEAR_400_MS + _YEAR_400_MS
    return datetime.datetime(1970, 1, 1, tzinfo=UTC) + datetime.timedelta(milliseconds=shifted)


def offset_ms(
    zone: datetime.tzinfo, millis: int, *, is_local: bool, is_second: bool = False
) -> int:
    """The offset from UTC at `millis`, an instant or a local time.

    A local time that a clock change skips or repeats gets the offset before the change, or the one
    after it if `is_second`.
    """
    if zone is UTC:
        return 0
    moment = _near(millis)
    if is_local:
        delta = moment.replace(tzinfo=zone, fold=int(is_second)).utcoffset()
    else:
        delta = moment.astimezone(zone).utcoffset()
    return 0 if delta is None else round(delta.total_seconds() * 1000)


def settle(zone: datetime.tzinfo, local: int, preferred: int) -> tuple[int, int]:
    """A valid local time and its offset: a skipped time moves forward by the gap, a repeated one
    has the preferred offset if that is one of the two."""
    first = offset_ms(zone, local, is_local=True)
    second = offset_ms(zone, local, is_local=True, is_second=True)
    if second > first:
        return local + second - first, second
    return local, second if preferred == second else first


def offset_text(ahead: int, part: Offset) -> str:
    """An offset in seconds in the format of a pattern part."""
    minutes, second = divmod(abs(ahead), 60)
    hour, minute = divmod(minutes, 60)
    between = ":" if part.colon else ""
    text = f"{'-' if ahead < 0 else '+'}{hour:02d}"
    shown = hour
    if minute or not part.optional_minutes:
        text += f"{between}{minute:02d}"
        shown += minute
    if second and part.has_seconds:
        text += f"{between}{second:02d}"
        shown += second
    return text if shown else part.zero


def gmt_text(ahead: int, *, is_full: bool) -> str:
    """An offset in seconds such as GMT+1, or GMT+01:00 where it is full."""
    if ahead == 0:
        return "GMT"
    minutes, second = divmod(abs(ahead), 60)
    hour, minute = divmod(minutes, 60)
    sign = "-" if ahead < 0 else "+"
    text = f"GMT{sign}{hour:02d}" if is_full else f"GMT{sign}{hour}"
    if is_full or minute or second:
        text += f":{minute:02d}"
    return text + (f":{second:02d}" if second else "")


def zone_id(zone: datetime.tzinfo) -> str:
    """The id of a zone."""
    if isinstance(zone, zoneinfo.ZoneInfo):
        return zone.key
    return (
        "UTC" if zone is UTC else offset_text(offset_ms(zone, 0, is_local=False) // 1000, ID_OFFSET)
    )


def zone_name(zone: datetime.tzinfo, millis: int, *, full: bool, generic: bool) -> str:
    """The name of a zone at an instant, in winter or summer; or the one for both."""
    name = zone_id(zone)
    if generic and name in _GENERIC:
        return _GENERIC[name][not full]
    if name in _NAMES:
        moment = _near(millis).astimezone(zone)
        return _NAMES[name][bool(moment.dst()) + (0 if full else 2)]
    if not isinstance(zone, zoneinfo.ZoneInfo):
        return name
    short = _near(millis).astimezone(zone).tzname() or name
    for names in _NAMES.values():
        if full and short in names[2:]:
            return names[names.index(short) - 2]
    return short if short[0].isalpha() else name

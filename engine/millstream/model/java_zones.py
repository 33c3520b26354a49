"""Time zones as Java names, reads and writes them."""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo

from millstream.model.errors import RecordError

UTC: datetime.tzinfo = datetime.timezone.utc  # noqa: UP017 - the tzinfo type is wanted here

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d)(?::?(\d\d))?)?", re.IGNORECASE)
_NAMES = {
    "America/Los_Angeles": ("Pacific Standard Time", "Pacific Daylight Time", "PST", "PDT"),
    "America/Denver": ("Mountain Standard Time", "Mountain Daylight Time", "MST", "MDT"),
    "America/Chicago": ("Central Standard Time", "Central Daylight Time", "CST", "CDT"),
    "America/New_York": ("Eastern Standard Time", "Eastern Daylight Time", "EST", "EDT"),
    "America/Anchorage": ("Alaska Standard Time", "Alaska Daylight Time", "AKST", "AKDT"),
    "Pacific/Honolulu": ("Hawaii Standard Time", "Hawaii Daylight Time", "HST", "HDT"),
    "Europe/London": ("Greenwich Mean Time", "British Summer Time", "GMT", "BST"),
    "Europe/Paris": ("Central European Time", "Central European Summer Time", "CET", "CEST"),
    "Europe/Athens": ("Eastern European Time", "Eastern European Summer Time", "EET", "EEST"),
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


def offset_ms(zone: datetime.tzinfo, millis: int, *, is_local: bool) -> int:
    """What to add to UTC to get the local time of `millis`, an instant or a local time.

    A local time that a change of clocks skips or repeats counts with the offset before it.
    """
    if zone is UTC:
        return 0
    # Rules repeat every 400 years: move what datetime cannot hold into its range.
    shifted = millis if -6e13 < millis < 2.5e14 else millis % _YEAR_400_MS
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=shifted)
    if is_local:
        delta = moment.replace(tzinfo=zone).utcoffset()
    else:
        delta = moment.replace(tzinfo=UTC).astimezone(zone).utcoffset()
    return 0 if delta is None else round(delta.total_seconds() * 1000)


def zone_text(letter: str, count: int, zone: datetime.tzinfo, millis: int) -> str:
    """What a zone letter of a pattern (`V v z O X x Z`) shows for an instant."""
    offset = offset_ms(zone, millis, is_local=False) // 1000
    match letter:
        case "V":
            return _zone_id(zone)
        case "v" | "z":
            return _zone_name(zone, millis, full=count == 4)
        case "O":
            return _gmt(offset, full=count == 4)
        case "Z" if count == 4:
            return _gmt(offset, full=True)
        case "Z":
            return _offset(offset, colon=count == 5, seconds=count == 5, zero="Z" * (count == 5))
    return _offset(
        offset,
        colon=count in (3, 5),
        seconds=count > 3,
        zero="Z" if letter == "X" else "",
        short=count == 1,
    )


def _offset(offset: int, *, colon: bool, seconds: bool, zero: str = "", short: bool = False) -> str:
    if offset == 0 and zero:
        return zero
    minutes, second = divmod(abs(offset), 60)
    hour, minute = divmod(minutes, 60)
    between = ":" if colon else ""
    text = f"{'-' if offset < 0 else '+'}{hour:02d}"
    if minute or not short:
        text += f"{between}{minute:02d}"
    return text + (f"{between}{second:02d}" if second and seconds else "")


def _gmt(offset: int, *, full: bool) -> str:
    if offset == 0:
        return "GMT"
    hour, minute = divmod(abs(offset) // 60, 60)
    text = f"GMT{'-' if offset < 0 else '+'}"
    if full:
        return f"{text}{hour:02d}:{minute:02d}"
    return f"{text}{hour}" + (f":{minute:02d}" if minute else "")


def _zone_id(zone: datetime.tzinfo) -> str:
    if isinstance(zone, zoneinfo.ZoneInfo):
        return zone.key
    return (
        "UTC"
        if zone is UTC
        else _offset(offset_ms(zone, 0, is_local=False) // 1000, colon=True, seconds=True, zero="Z")
    )


def _zone_name(zone: datetime.tzinfo, millis: int, *, full: bool) -> str:
    zone_id = _zone_id(zone)
    if zone_id in _NAMES:
        moment = datetime.datetime.fromtimestamp(millis / 1000, UTC).astimezone(zone)
        return _NAMES[zone_id][bool(moment.dst()) + (0 if full else 2)]
    if not isinstance(zone, zoneinfo.ZoneInfo):
        return zone_id
    short = datetime.datetime.fromtimestamp(millis / 1000, UTC).astimezone(zone).tzname() or zone_id
    for names in _NAMES.values():
        if full and short in names[2:]:
            return names[names.index(short) - 2]
    return short if short[0].isalpha() else zone_id

"""Parses dates by the patterns of Java's older `SimpleDateFormat`, as leniently as that.

Numbers overflow beyond their range, more text may follow, names of months may be short or long, two
digits are the year within the last eighty and next twenty, and days before 15 October 1582 are
those of the Julian calendar.
"""

from __future__ import annotations

import datetime
import functools
import re

from millstream.model import refusals
from millstream.model.errors import RecordError
from millstream.model.java_days import days_from_civil, weekday_from_sunday
from millstream.model.java_names import DAYS, MONTHS
from millstream.model.java_zones import longest_name, offset_ms, parse_zone

_LETTERS = frozenset("GyYMLwWDdFEuaHkKhmsSzZX")
_NUMBERS = frozenset("yYMLwWDdFuHkKhmsS")
_CUTOVER = days_from_civil(1582, 10, 15)
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]+")
_UNITS = {"H": 3_600_000, "K": 3_600_000, "m": 60_000, "s": 1000, "S": 1}
_DAY_MS = 86_400_000

_Pieces = tuple[tuple[str, int], ...]
_Fields = dict[str, int]
"""Values by letter, in the order in which they were read."""


@functools.lru_cache(maxsize=1024)
def _pieces(text: str) -> _Pieces:
    """Letters with their counts, and texts with the count 0."""
    found: list[tuple[str, int]] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise refusals.TIME_FORMAT_QUOTE(text=text)
        letter = match[2]
        if letter is None:
            quoted = match[1]
            literal = match[0] if quoted is None else quoted.replace("''", "'") or "'"
            found.append((literal, 0))
        else:
            if letter not in _LETTERS:
                raise refusals.TIME_FORMAT_LETTER(char=letter, text=text)
            count = len(match[0])
            if letter == "X" and count > 3:
                raise refusals.TIME_FORMAT_COUNT(
                    text=text, flaw=f"the letter X may not stand {count} times"
                )
            found.append((letter, count))
        at = match.end()
    return tuple(found)


def parse_lenient_date(pattern: str, text: str) -> int:
    """Days since the epoch. Raises RecordError where the text does not match or has another time of
    day than midnight."""
    pieces = _pieces(pattern)
    fields: _Fields = {}
    at = 0
    for (piece, count), (follower, width) in zip(pieces, (*pieces[1:], ("", 0)), strict=True):
        if not count:
            end = at + len(piece) if text.startswith(piece, at) else -1
        else:
            is_abutting = follower in _NUMBERS and not (follower in "ML" and width > 2)
            end = _read(piece, count, is_abutting and width > 0, text, at, fields)
        if end < 0:
            raise RecordError(f"The text '{text}' does not match the time format '{pattern}'")
        at = end
    local = _days(fields) * _DAY_MS + _millis(fields)
    if "Z" in fields:
        local -= fields["Z"]
    days, of_day = divmod(local, _DAY_MS)
    if of_day:
        raise RecordError(f"'{text}' is read as a date, but has a time of day")
    return days


def _read(letter: str, count: int, is_abutting: bool, text: str, at: int, fields: _Fields) -> int:
    """Read a field; returns the index behind it, or -1."""
    while text[at : at + 1] in (" ", "\t") and at < len(text):
        at += 1
    if at == len(text):
        return -1
    if letter in "zZX":
        return _zone(letter, count, text, at, fields)
    if letter in "GEa" or (letter in "ML" and count > 2):
        return _word(letter, text, at, fields)
    if is_abutting and at + count > len(text):
        return -1
    match = _NUMBER.match(text, at, at + count if is_abutting else len(text))
    if match is None:
        return -1
    value = int(match[0])
    if letter in "yY" and count <= 2 and len(match[0]) == 2 and value >= 0:
        value = _recent(value)
    elif letter in "kh":
        value = 0 if value == {"k": 24, "h": 12}[letter] else value
    elif letter == "u":
        value = value % 7 + 1 if 1 <= value <= 7 else value
    _put(fields, {"L": "M", "k": "H", "h": "K", "u": "E"}.get(letter, letter), value)
    return match.end()


def _put(fields: _Fields, letter: str, value: int) -> None:
    fields.pop(letter, None)
    fields[letter] = value


def _recent(value: int) -> int:
    start = datetime.datetime.now(datetime.UTC).year - 80
    return start // 100 * 100 + value + (100 if value < start % 100 else 0)


def _word(letter: str, text: str, at: int, fields: _Fields) -> int:
    lists: tuple[tuple[str, ...], ...]
    if letter in "ML":
        lists = (MONTHS, tuple(name[:3] for name in MONTHS))
    elif letter == "E":
        week = (DAYS[6], *DAYS[:6])
        lists = (week, tuple(name[:3] for name in week))
    else:
        eras = (("Before Christ", "Anno Domini"), ("BC", "AD"))
        lists = eras if letter == "G" else (("AM", "PM"),)
    for names in lists:
        for index, name in enumerate(names):
            if text[at : at + len(name)].upper() == name.upper():
                _put(fields, {"L": "M"}.get(letter, letter), index + (letter in "MLE"))
                return at + len(name)
    return -1


def _zone(letter: str, count: int, text: str, at: int, fields: _Fields) -> int:
    if letter == "X":
        colon = ":" if count == 3 else ""
        shape = rf"Z|([+-])(\d\d){'' if count == 1 else colon + '([0-5][0-9])'}"
    else:
        shape = r"(?:GMT)?([+-])(\d\d?):?([0-5][0-9])|GMT"
    match = re.compile(shape, re.ASCII | re.IGNORECASE * (letter != "X")).match(text, at)
    if match is not None:
        minutes = match[3] if len(match.groups()) > 2 and match[3] else "0"
        ahead = (int(match[2] or 0) * 60 + int(minutes)) * 60_000
        _put(fields, "Z", -ahead if match[1] == "-" else ahead)
        return match.end()
    name = "" if letter == "X" else longest_name(text, at, with_names=True)
    if len(name) < 2:
        return -1
    _put(fields, "Z", offset_ms(parse_zone(name), 0, is_local=True))
    return at + len(name)


def _millis(fields: _Fields) -> int:
    """Milliseconds of the day; of a 24-hour and a 12-hour field the one read later wins."""
    order = list(fields)
    half = [order.index(letter) for letter in "Ka" if letter in fields]
    if "H" in fields and not (len(half) == 2 and max(half) > order.index("H")):
        used = "HmsS"
        total = 0
    else:
        used = "KmsS"
        total = fields.get("a", 0) * 43_200_000
    return total + sum(fields.get(letter, 0) * _UNITS[letter] for letter in used)


def _days(fields: _Fields) -> int:
    """The date; of several representations, the one whose field was read last wins."""
    stamp = {letter: at for at, letter in enumerate(fields, 1)}
    weekday = stamp.get("E", 0)

    def both(letter: str) -> int:
        return max(stamp.get(letter, 0), weekday) if letter in stamp and weekday else 0

    year = fields.get("y", 1970)
    if stamp.get("Y", 0) > stamp.get("y", 0):
        return _on_calendar(fields["Y"], fields | {"w": fields.get("w", 1)}, "w")
    ways = {"d": stamp.get("d", 0), "W": both("W"), "F": both("F")}
    ways |= {"D": stamp.get("D", 0), "w": both("w")}
    way = max(ways, key=lambda letter: ways[letter])
    if not ways[way]:
        alone = {"W": stamp.get("W", 0), "F": max(stamp.get("F", 0), weekday)}
        alone["w"] = stamp.get("w", 0)
        way = max(alone, key=lambda letter: alone[letter])
        way = way if alone[way] else "d"
    if fields.get("G") == 0:
        year = 1 - year
    return _on_calendar(year, fields, way)


def _on_calendar(year: int, fields: _Fields, way: str) -> int:
    month = fields.get("M", 1) - 1 if way in "dWF" else 0
    year, month = year + month // 12, month % 12 + 1
    gregorian = _in_month(days_from_civil(year, month, 1), year, month, fields, way)
    if year > 1582 or (year == 1582 and gregorian >= _CUTOVER):
        return gregorian
    return _in_month(_julian(year, month), year, month, fields, way)


def _julian(year: int, month: int) -> int:
    """Days since the epoch of the first day of a month in the Julian calendar."""
    year -= month <= 2
    return 365 * year + year // 4 + (153 * ((month + 9) % 12) + 2) // 5 - 719_470


def _in_month(first: int, year: int, month: int, fields: _Fields, way: str) -> int:
    of_week = fields.get("E", 1) - 1
    sunday = first - weekday_from_sunday(first)
    match way:
        case "d" | "D":
            return first + fields.get(way, 1) - 1
        case "W" | "w":
            return sunday + 7 * (fields[way] - 1) + of_week
    turn = fields.get("F", 1)
    if turn >= 0:
        latest = first + 7 * turn - 1
    else:
        following = days_from_civil(year + month // 12, month % 12 + 1, 1)
        latest = following + 7 * (turn + 1) - 1
    return latest - (weekday_from_sunday(latest) - of_week) % 7

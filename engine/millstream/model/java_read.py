"""Parses text by a compiled date-time pattern into field values, as Java's formatter does.

Reading ignores case. A part that does not match ends the reading, or its section in brackets.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from millstream.model import java_zones
from millstream.model.errors import RecordError
from millstream.model.java_names import PERIODS, WORDS
from millstream.model.java_pattern import (
    Fraction,
    GmtOffset,
    Literal,
    Number,
    Offset,
    Padded,
    Part,
    Section,
    TimePattern,
    Word,
    ZoneId,
    ZoneName,
)

Fields = dict[str, int]
"""Values by pattern letter."""

_NO = -1
"""Instead of an index: the part does not match."""
_DIGITS = "0123456789"


@dataclass(slots=True)
class Found:
    """The values in a text. `period` is the index of a period of the day."""

    fields: Fields = field(default_factory=dict)
    zone: datetime.tzinfo | None = None
    period: int | None = None

    def put(self, letter: str, value: int, end: int) -> int:
        """Store a value and return `end`; no match if the field already has another value."""
        return end if self.fields.setdefault(letter, value) == value else _NO


def read(pattern: TimePattern, text: str) -> Found:
    """The values in a text. Raises RecordError where it does not match."""
    found = Found()
    if _parts(pattern.parts, text, 0, found) != len(text):
        raise RecordError(f"The text '{text}' does not match the time format '{pattern.text}'")
    return found


def _parts(parts: tuple[Part, ...], text: str, at: int, found: Found) -> int:
    for part in parts:
        at = _part(part, text, at, found)
        if at < 0:
            return _NO
    return at


def _part(part: Part, text: str, at: int, found: Found) -> int:
    match part:
        case Number():
            return _number(part, text, at, found)
        case Literal():
            return _same(text, at, part.text)
        case Fraction():
            digits = _digits(text, at, part.count)
            if len(digits) < part.count:
                return _NO
            return found.put("n", int(digits.ljust(9, "0")), at + part.count)
        case Word():
            return _word(part, text, at, found)
        case Offset():
            return _offset(part, text, at, found)
        case GmtOffset():
            return _gmt(part, text, at, found)
        case ZoneId() | ZoneName():
            return _zone(part, text, at, found)
        case Padded():
            return _padded(part, text, at, found)
        case Section():
            return _section(part, text, at, found)


def _section(part: Section, text: str, at: int, found: Found) -> int:
    inner = Found(dict(found.fields), found.zone, found.period)
    end = _parts(part.parts, text, at, inner)
    if end < 0:
        return at
    found.fields, found.zone, found.period = inner.fields, inner.zone, inner.period
    return end


def _padded(part: Padded, text: str, at: int, found: Found) -> int:
    end = at + part.width
    if at == len(text) or end > len(text):
        return _NO
    start = at
    while start < end and text[start] == " ":
        start += 1
    return end if _part(part.part, text[:end], start, found) == end else _NO


def _same(text: str, at: int, word: str) -> int:
    """The index behind a word, in any case."""
    piece = text[at : at + len(word)]
    if piece == word or piece.upper() == word.upper() or piece.lower() == word.lower():
        return at + len(word)
    return _NO


def _digits(text: str, at: int, most: int) -> str:
    end, last = at, min(at + most, len(text))
    while end < last and text[end] in _DIGITS:
        end += 1
    return text[at:end]


def _number(part: Number, text: str, at: int, found: Found) -> int:
    sign = text[at : at + 1] if text[at : at + 1] in ("+", "-") else ""
    if sign and (part.sign == "never" or (sign == "+" and part.sign == "normal")):
        return _NO
    start = at + len(sign)
    digits = _digits(text, start, part.high + part.follow)
    if part.follow:
        digits = digits[: max(part.low, len(digits) - part.follow)]
    if len(digits) > 18 and int(digits) >= 2**63:
        digits = digits[:-1]
    if len(digits) < part.low:
        return _NO
    value, is_long = int(digits), len(digits) > part.low
    if sign == "-":
        if value == 0:
            return _NO
        value = -value
    elif part.sign == "exceeds" and is_long != (sign == "+"):
        return _NO
    if part.is_reduced:
        value += 2000
    return found.put(part.field, value, start + len(digits))


def _word(part: Word, text: str, at: int, found: Found) -> int:
    if part.field == "B":
        return _period(part, text, at, found)
    # Of two values with the same narrow name (J is January, June and July) the last one wins.
    values = {word: value for value, word in WORDS[part.field][part.style].items()}
    for word in sorted(values, key=len, reverse=True):
        end = _same(text, at, word)
        if end >= 0:
            return found.put(part.field, values[word], end)
    return _NO


def _period(part: Word, text: str, at: int, found: Found) -> int:
    names = PERIODS[part.style]
    for name in sorted(names, key=len, reverse=True):
        end = _same(text, at, name)
        if end >= 0:
            period = names.index(name)
            if found.period not in (None, period):
                return _NO
            found.period = period
            return end
    return _NO


def _two(text: str, at: int, colon: bool) -> int | None:
    """A number of two digits up to 59, behind a colon or not."""
    if colon:
        if text[at : at + 1] != ":":
            return None
        at += 1
    digits = _digits(text, at, 2)
    return int(digits) if len(digits) == 2 and int(digits) < 60 else None


def _offset(part: Offset, text: str, at: int, found: Found) -> int:
    if at == len(text):
        return _NO
    end = _same(text, at, part.zero)
    if end >= 0:
        return found.put("X", 0, end)
    if text[at] not in "+-":
        return _NO
    end = at + 3
    hours = _two(text, at + 1, colon=False)
    minutes = _two(text, end, part.colon)
    if hours is None or (minutes is None and not part.optional_minutes):
        return _NO
    width = 2 + part.colon
    end += 0 if minutes is None else width
    seconds = _two(text, end, part.colon) if part.has_seconds else None
    end += 0 if seconds is None else width
    if hours > 23:
        raise RecordError(f"The offset in '{text}' is not within -18:00 and +18:00")
    ahead = hours * 3600 + (minutes or 0) * 60 + (seconds or 0)
    return found.put("X", -ahead if text[at] == "-" else ahead, end)


def _gmt(part: GmtOffset, text: str, at: int, found: Found) -> int:
    end = _same(text, at, "GMT")
    if end < 0:
        return _NO
    sign = text[end : end + 1]
    if sign not in ("+", "-"):
        return found.put("X", 0, end)
    hours = _digits(text, end + 1, 2)
    if not hours or (part.is_full and len(hours) < 2):
        return _NO
    end += 1 + len(hours)
    ahead = int(hours) * 3600
    for unit in (60, 1):
        digits = _digits(text, end + 1, 2) if text[end : end + 1] == ":" else ""
        if len(digits) < 2:
            if part.is_full and unit == 60:
                return _NO
            break
        ahead += int(digits) * unit
        end += 3
    return found.put("X", -ahead if sign == "-" else ahead, end)


def _zone(part: ZoneId | ZoneName, text: str, at: int, found: Found) -> int:
    start = at
    for prefix in ("UTC", "UT", "GMT"):
        if _same(text, at, prefix) >= 0:
            start = at + len(prefix)
            break
    if text[start : start + 1] in ("+", "-"):
        inner = Found()
        end = _offset(java_zones.ID_OFFSET, text, start, inner)
        if end < 0 and start == at:
            return _NO
        if end >= 0:
            found.zone = java_zones.fixed_zone(inner.fields["X"])
            return end
    if start > at:
        found.zone = java_zones.UTC
        return start
    name = java_zones.longest_name(text, at, with_names=isinstance(part, ZoneName))
    if not name:
        return _NO
    found.zone = java_zones.parse_zone(name)
    return at + len(name)

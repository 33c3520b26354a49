"""Java's date-time patterns compiled: the parts of a pattern and the expression that reads it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from millstream.model import refusals

READABLE = frozenset("GuyMLdDQqEahHkKmsSAnNVvzOXxZ")
"""Pattern letters that text can be read with."""
ZONE_LETTERS = frozenset("VvzOXxZ")
"""Pattern letters that stand for a zone or an offset."""
_WRITABLE = READABLE | frozenset("YwWFec")
_DATE_LETTERS = frozenset("GuyMLdDQqEYwWFec")
_TIME_LETTERS = frozenset("ahHkKmsSAnN")

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a pattern: `text` as it is, or `count` times a pattern letter."""

    text: str = ""
    letter: str = ""
    count: int = 0
    optional: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class TimePattern:
    """A compiled pattern. `letters` are the pattern letters it uses."""

    text: str
    parts: tuple[Part, ...]
    regex: re.Pattern[str]
    groups: tuple[Part, ...]
    letters: frozenset[str]

    @property
    def has_date(self) -> bool:
        """Whether a date field (year … day) occurs."""
        return bool(self.letters & _DATE_LETTERS)

    @property
    def has_time(self) -> bool:
        """Whether a time-of-day field occurs."""
        return bool(self.letters & _TIME_LETTERS)

    @property
    def has_zone(self) -> bool:
        """Whether a zone or an offset occurs."""
        return bool(self.letters & ZONE_LETTERS)


@functools.lru_cache(maxsize=1024)
def compile_pattern(text: str) -> TimePattern:
    """Compile a pattern; StatementError says what is wrong with it."""
    parts, rest = _split(text, 0, depth=0)
    if rest != len(text):
        raise refusals.TIME_FORMAT_CLOSED(text=text)
    groups: list[Part] = []
    regex = re.compile(_regex(parts, groups, text), re.IGNORECASE | re.DOTALL)
    return TimePattern(text, parts, regex, tuple(groups), frozenset(_letters(parts)))


def _split(text: str, at: int, depth: int) -> tuple[tuple[Part, ...], int]:
    parts: list[Part] = []
    while at < len(text):
        char = text[at]
        if char == "'":
            literal, at = _quoted(text, at)
            parts.append(Part(text=literal))
        elif char == "[":
            inner, at = _split(text, at + 1, depth + 1)
            if at >= len(text):
                raise refusals.TIME_FORMAT_OPEN(text=text)
            parts.append(Part(optional=inner))
            at += 1
        elif char == "]":
            return tuple(parts), at
        elif char in "{}#":
            raise refusals.TIME_FORMAT_RESERVED(text=text, char=char)
        elif char.isascii() and char.isalpha():
            if char not in _WRITABLE:
                raise refusals.TIME_FORMAT_LETTER(char=char, text=text)
            end = at
            while end < len(text) and text[end] == char:
                end += 1
            parts.append(Part(letter=char, count=end - at))
            at = end
        else:
            parts.append(Part(text=char))
            at += 1
    return tuple(parts), at


def _quoted(text: str, at: int) -> tuple[str, int]:
    end, found = at + 1, ""
    while end < len(text):
        if text[end] != "'":
            found += text[end]
            end += 1
        elif text[end + 1 : end + 2] == "'" and end > at + 1:
            found += "'"
            end += 2
        else:
            return found or "'", end + 1
    raise refusals.TIME_FORMAT_QUOTE(text=text)


def _letters(parts: tuple[Part, ...]) -> Iterator[str]:
    for part in parts:
        if part.letter:
            yield part.letter
        yield from _letters(part.optional)


def _regex(parts: tuple[Part, ...], groups: list[Part], text: str) -> str:
    found = ""
    for part in parts:
        if part.optional:
            found += f"(?:{_regex(part.optional, groups, text)})?"
        elif part.letter:
            groups.append(part)
            found += f"({_letter_regex(part)})"
        else:
            found += re.escape(part.text)
    return found


_OFFSETS = {
    1: r"Z|[+-]\d\d(?:\d\d)?",
    2: r"Z|[+-]\d{4}",
    3: r"Z|[+-]\d\d:\d\d",
    4: r"Z|[+-]\d{4}(?:\d\d)?",
    5: r"Z|[+-]\d\d:\d\d(?::\d\d)?",
}


def _letter_regex(part: Part) -> str:
    count = part.count
    match part.letter:
        case "G":
            return "AD|BC|Anno Domini|Before Christ|A|B"
        case "u" | "y" | "Y":
            if count == 2:
                return r"\d{2}"
            return r"[+-]?\d{4}|[+-]\d{5,9}" if count == 4 else rf"-?\d{{{count},9}}"
        case "M" | "L" if count >= 3:
            return _names(MONTHS, count)
        case "Q" | "q" if count >= 3:
            return r"Q?\d(?:st quarter|nd quarter|rd quarter|th quarter)?"
        case "E" | "e" | "c" if part.letter == "E" or count >= 3:
            return _names(DAYS, count)
        case "a":
            return "AM|PM"
        case "S":
            return rf"\d{{{count}}}"
        case "X" | "x":
            return _OFFSETS[min(count, 5)]
        case "Z":
            return {4: r"(?:GMT|UTC)(?:[+-]\d\d:?\d\d)?", 5: _OFFSETS[5]}.get(count, r"[+-]\d{4}")
        case "O":
            return r"GMT(?:[+-]\d\d?(?::?\d\d)?)?"
        case "V" | "v" | "z":
            return r"[+-]\d\d(?::?\d\d(?::?\d\d)?)?|[A-Za-z][A-Za-z0-9/_+: -]*[A-Za-z0-9]|Z"
    return r"\d{1,18}" if count == 1 else rf"\d{{{count}}}"


def _names(names: tuple[str, ...], count: int) -> str:
    if count > 4:
        return "|".join(sorted({name[0] for name in names}))
    return "|".join(name if count == 4 else name[:3] for name in names)

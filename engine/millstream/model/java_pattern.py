"""Java's date-time patterns compiled: `java.time.format.DateTimeFormatter`'s letters and counts.

A field is named by its pattern letter, one letter for those that differ only in style: `M` is the
month (also L), `Q` the quarter, `E` the day of the week from Monday, `e` the one from Sunday, `n`
the nanosecond of the second (also S), `X` the offset in seconds.
"""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass

from millstream.model import refusals

_WIDEST = 19


@dataclass(frozen=True, slots=True)
class Literal:
    """Literal text."""

    text: str


@dataclass(frozen=True, slots=True)
class Number:
    """A number of `low` to `high` digits.

    `sign` is "normal" (a minus is allowed), "exceeds" (a plus where there are more than `low`
    digits) or "never". `follow` digits belong to directly adjacent numbers behind it. `is_reduced`
    numbers are years from 2000 on in two digits.
    """

    field: str
    low: int
    high: int
    sign: str
    follow: int = 0
    is_reduced: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether the number has a fixed width, and so may follow another one directly."""
        return self.low == self.high and self.sign == "never"


@dataclass(frozen=True, slots=True)
class Fraction:
    """Exactly `count` digits behind the point of a second."""

    count: int


@dataclass(frozen=True, slots=True)
class Word:
    """A name of a field's value: "short", "full" or "narrow". Letter B is a period of the day."""

    field: str
    style: str


@dataclass(frozen=True, slots=True)
class Offset:
    """An offset such as +01:30; `zero` is the text of no offset.

    Seconds may follow the minutes where it `has_seconds`.
    """

    zero: str
    colon: bool
    optional_minutes: bool = False
    has_seconds: bool = False


@dataclass(frozen=True, slots=True)
class GmtOffset:
    """An offset such as GMT+1, or GMT+01:00 where it is full."""

    is_full: bool


@dataclass(frozen=True, slots=True)
class ZoneId:
    """A zone's id (VV)."""


@dataclass(frozen=True, slots=True)
class ZoneName:
    """A zone's name in winter or summer (z), or the one for both (v)."""

    is_full: bool
    is_generic: bool


@dataclass(frozen=True, slots=True)
class Padded:
    """A part that is padded with spaces to a width."""

    width: int
    part: Part


@dataclass(frozen=True, slots=True)
class Section:
    """Optional parts, in brackets."""

    parts: tuple[Part, ...]


Part = (
    Literal | Number | Fraction | Word | Offset | GmtOffset | ZoneId | ZoneName | Padded | Section
)


@dataclass(frozen=True, slots=True)
class TimePattern:
    """A compiled pattern."""

    text: str
    parts: tuple[Part, ...]


class _Parts:
    """The parts of one level, in which adjacent numbers share their digits."""

    def __init__(self) -> None:
        self.found: list[Part] = []
        self._number = -1

    def add(self, part: Part, pad: int = 0) -> None:
        """Add a part, padded to a width unless the width is 0."""
        number, self._number = -1 if pad else self._number, -1
        if not isinstance(part, Number | Fraction):
            self.found.append(Padded(pad, part) if pad else part)
            return
        before = self.found[number] if number >= 0 else None
        if isinstance(before, Padded):
            raise ValueError("a number follows a padded one")
        width = part.count if isinstance(part, Fraction) else part.high
        is_fixed = isinstance(part, Fraction) or part.is_fixed
        self._number = len(self.found)
        if before is not None and is_fixed:
            if isinstance(before, Number):
                self.found[number] = dataclasses.replace(before, follow=before.follow + width)
            self._number = number
        self.found.append(Padded(pad, part) if pad else part)

    def end_number(self) -> None:
        """Note that the next part does not follow a number."""
        self._number = -1


@functools.lru_cache(maxsize=1024)
def compile_pattern(text: str) -> TimePattern:
    """Compile a pattern; raises StatementError for an invalid one."""
    try:
        return TimePattern(text, _compile(text))
    except ValueError as error:
        raise refusals.TIME_FORMAT_COUNT(text=text, flaw=str(error)) from error


def _compile(text: str) -> tuple[Part, ...]:
    levels = [_Parts()]
    at = 0
    while at < len(text):
        char = text[at]
        if char == "'":
            literal, at = _quoted(text, at)
            levels[-1].add(Literal(literal))
        elif char.isascii() and char.isalpha():
            at = _letters(text, at, levels[-1])
        else:
            at += 1
            if char == "[":
                levels[-1].end_number()
                levels.append(_Parts())
            elif char == "]":
                if len(levels) == 1:
                    raise refusals.TIME_FORMAT_CLOSED(text=text)
                _close(levels)
            elif char in "{}#":
                raise refusals.TIME_FORMAT_RESERVED(text=text, char=char)
            else:
                levels[-1].add(Literal(char))
    while len(levels) > 1:
        _close(levels)
    return tuple(levels[0].found)


def _close(levels: list[_Parts]) -> None:
    inner = levels.pop()
    if inner.found:
        levels[-1].add(Section(tuple(inner.found)))


def _letters(text: str, at: int, parts: _Parts) -> int:
    """Add the letter field that begins at an index of a pattern; returns the index behind it."""
    letter, end = _run(text, at)
    pad = 0
    if letter == "p":
        pad, at = end - at, end
        if not (text[at : at + 1].isascii() and text[at : at + 1].isalpha()):
            raise ValueError("the letter p must be followed by a letter to pad")
        letter, end = _run(text, at)
    part = _part(letter, end - at)
    if part is None:
        raise refusals.TIME_FORMAT_LETTER(char=letter, text=text)
    parts.add(part, pad)
    return end


def _run(text: str, at: int) -> tuple[str, int]:
    end = at
    while end < len(text) and text[end] == text[at]:
        end += 1
    return text[at], end


def _quoted(text: str, at: int) -> tuple[str, int]:
    end, found = at + 1, ""
    while end < len(text):
        if text[end] != "'":
            found += text[end]
            end += 1
        elif text[end + 1 : end + 2] == "'":
            found += "'"
            end += 2
        else:
            return found or "'", end + 1
    raise refusals.TIME_FORMAT_QUOTE(text=text)


def _part(letter: str, count: int) -> Part | None:
    field = {"L": "M", "q": "Q"}.get(letter, letter)
    match letter:
        case "u" | "y" | "Y":
            return _year(letter, count)
        case "M" | "L" | "Q" | "q" | "E" | "e" | "c":
            return _worded(field, count)
        case "G" | "B" | "a":
            allowed = {"G": (1, 2, 3, 4, 5), "B": (1, 4, 5), "a": (1,)}[letter]
            _allow(letter, count, *allowed)
            return Word(letter, _style(count))
        case "S":
            _allow(letter, count, *range(1, 10))
            return Fraction(count)
        case "d" | "h" | "H" | "k" | "K" | "m" | "s":
            _allow(letter, count, 1, 2)
            return _plain(field, count)
        case "D":
            _allow(letter, count, 1, 2, 3)
            return _plain(field, 1) if count == 1 else Number("D", count, 3, "never")
        case "F" | "W":
            _allow(letter, count, 1)
            return _plain("F", 1) if letter == "F" else Number("W", 1, 1, "never")
        case "w":
            _allow(letter, count, 1, 2)
            return Number("w", count, 2, "never")
        case "A" | "n" | "N" | "g":
            _allow(letter, count, *range(1, _WIDEST + 1))
            return Number(field, count, _WIDEST, "normal" if letter == "g" else "never")
    return _zone(letter, count)


def _allow(letter: str, count: int, *allowed: int) -> None:
    if count not in allowed:
        raise ValueError(f"the letter {letter} may not stand {count} times")


def _style(count: int) -> str:
    return {4: "full", 5: "narrow"}.get(count, "short")


def _plain(field: str, count: int) -> Number:
    return Number(field, 1, _WIDEST, "normal") if count == 1 else Number(field, 2, 2, "never")


def _year(letter: str, count: int) -> Number:
    _allow(letter, count, *range(1, _WIDEST + 1))
    if count == 2:
        return Number(letter, 2, 2, "never", is_reduced=True)
    return Number(letter, count, _WIDEST, "normal" if count < 4 else "exceeds")


def _worded(field: str, count: int) -> Part:
    _allow(field, count, *((1, 3, 4, 5) if field == "c" else (1, 2, 3, 4, 5)))
    if count <= 2:
        if field == "E":
            return Word("E", "short")
        if field in ("e", "c"):
            return Number("e", count, count, "never")
        return _plain(field, count)
    return Word("E" if field in ("e", "c") else field, _style(count))


def _zone(letter: str, count: int) -> Part | None:
    match letter:
        case "V":
            _allow(letter, count, 2)
            return ZoneId()
        case "z" | "v":
            _allow(letter, count, *((1, 4) if letter == "v" else (1, 2, 3, 4)))
            return ZoneName(is_full=count == 4, is_generic=letter == "v")
        case "O":
            _allow(letter, count, 1, 4)
            return GmtOffset(is_full=count == 4)
        case "Z":
            _allow(letter, count, *range(1, 6))
            if count == 4:
                return GmtOffset(is_full=True)
            is_long = count == 5
            return Offset("Z" if is_long else "+0000", colon=is_long, has_seconds=is_long)
        case "X" | "x":
            _allow(letter, count, *range(1, 6))
            zero = "+00" if count == 1 else "+0000" if count % 2 == 0 else "+00:00"
            return Offset(
                "Z" if letter == "X" else zero,
                colon=count in (3, 5),
                optional_minutes=count == 1,
                has_seconds=count > 3,
            )
    return None

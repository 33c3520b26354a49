"""Reads timestamps in common patterns in one step: `yyyy-MM-dd'T'HH:mm:ss.SSSX` and the like.

The general reader goes part by part, which takes six times as long. This one reads patterns with a
complete date and time of day in numbers of fixed width; for everything else it returns None, and
the general reader decides.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.model.java_pattern import Fraction, Literal, Number, Offset, Part, compile_pattern

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_HOURS_MAX = 17
"""The range of an offset; the general reader handles those of 18 hours."""
_DATE = ("M", "d")
_CLOCK = ("H", "m", "s")


@dataclass(frozen=True, slots=True)
class PlainTimestamp:
    """The local time, in ms since 1970-01-01T00:00, and the offset in seconds if there is one."""

    local: int
    offset: int | None


Reader = Callable[[str], PlainTimestamp | None]


@functools.lru_cache(256)
def plain_reader(pattern: str) -> Reader | None:
    """A reader of the common texts of a pattern, which returns None for others; None where the
    pattern is not a common one. Raises RecordError for an invalid date or time."""
    parts = compile_pattern(pattern).parts
    pieces = [_piece(part) for part in parts]
    names = [part.field for part in parts if isinstance(part, Number)]
    year = next((name for name in names if name in "uy"), "")
    if None in pieces or sorted(names) != sorted((year, *_DATE, *_CLOCK)):
        return None
    if sum(isinstance(part, Fraction | Offset) for part in parts) > len(
        {type(part) for part in parts if isinstance(part, Fraction | Offset)}
    ):
        return None
    match = re.compile("".join(piece for piece in pieces if piece is not None)).fullmatch

    fraction = "n" if any(isinstance(part, Fraction) for part in parts) else ""
    offset = any(isinstance(part, Offset) for part in parts)

    def read(text: str) -> PlainTimestamp | None:
        found = match(text)
        if found is None:
            return None
        local = _local(found.group(year, *_DATE, *_CLOCK), found[fraction] if fraction else "")
        if local is None or not offset:
            return None if local is None else PlainTimestamp(local, None)
        ahead = _ahead(found["sign"], found["hours"], found["minutes"])
        return None if ahead is None else PlainTimestamp(local, ahead)

    return read


def _piece(part: Part) -> str | None:
    """The regular expression of a part; None where the part is unusual."""
    match part:
        case Literal():
            return re.escape(part.text)
        case Number(field="u" | "y", low=4):
            return f"(?P<{part.field}>[0-9]{{4}})"
        case Number(field="M" | "d" | "H" | "m" | "s", low=2):
            return f"(?P<{part.field}>[0-9]{{2}})"
        case Fraction():
            return f"(?P<n>[0-9]{{{part.count}}})"
        case Offset():
            colon = ":" if part.colon else ""
            numbers = f"(?P<sign>[+-])(?P<hours>[0-9]{{2}}){colon}(?P<minutes>[0-9]{{2}})"
            return f"(?:{re.escape(part.zero)}|{numbers})"
    return None


def _local(digits: Sequence[str | Any], fraction: str | Any) -> int | None:
    """None where no such day or time of day exists."""
    year, month, day, hour, minute, second = map(int, digits)
    if hour > 23 or minute > 59 or second > 59:
        return None
    try:
        days = datetime.date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    seconds = ((days * 24 + hour) * 60 + minute) * 60 + second
    return seconds * 1000 + int(f"{fraction}000"[:3])


def _ahead(sign: str | None, hours: str | None, minutes: str | None) -> int | None:
    """Seconds; no part is present if the text has the sign for no offset."""
    if sign is None or hours is None or minutes is None:
        return 0
    if int(hours) > _HOURS_MAX or int(minutes) > 59:
        return None
    ahead = (int(hours) * 60 + int(minutes)) * 60
    return -ahead if sign == "-" else ahead

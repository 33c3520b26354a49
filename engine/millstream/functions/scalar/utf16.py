"""Texts as in Java: sequences of UTF-16 units, two for a character beyond U+FFFF.

DuckDB counts characters. The templates of functions that count fail where a text has such a
character (`unless_astral`), and the functions in this file then compute the batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

ASTRAL = "[\U00010000-\U0010ffff]"
"""A regular expression of characters of two units."""


def unless_astral(sql: str, *arguments: int, kind: str = "VARCHAR") -> str:
    """SQL that fails where one of these text arguments has a character of two units."""
    found = " OR ".join(
        f"CASE WHEN strlen({{{place}}}) > length({{{place}}})"
        f" THEN regexp_matches({{{place}}}, '{ASTRAL}') ELSE FALSE END"
        for place in arguments
    )
    return (
        f"CASE WHEN {found} THEN CAST(CAST('characters of two units' AS INTEGER) AS {kind})"
        f" ELSE {sql} END"
    )


def units(text: str) -> str:
    """The text with each half of a surrogate pair as a character of its own."""
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join(map(chr, struct.unpack(f"<{len(data) // 2}H", data)))


def text_of(halves: str) -> str:
    """The reverse of `units`; a half without the other is a question mark, as in Java."""
    text = halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text.encode("utf-8", "replace").decode()


def substring(text: str, position: int, length: int | None = None) -> str:
    """SUBSTRING: positions count from 1, or, if negative, from the end."""
    whole = units(text)
    size = len(whole)
    start = max(size + position, 0) if position < 0 else max(min(position - 1, size), 0)
    end = size if length is None else max(min(start + length, size), start)
    return text_of(whole[start:end])


def instr(text: str | None, wanted: str | None, *where: int | None) -> int:
    """INSTR: the position counted from 1; 0 where the text does not occur."""
    position, occurrence = (*where, 1, 1)[:2] if len(where) < 2 else where
    if text is None or wanted is None or position is None or occurrence is None:
        return 0
    whole, part = units(text), units(wanted)
    starts = [at + 1 for at in range(len(whole)) if whole.startswith(part, at)]
    if position < 0:
        starts = [at for at in starts if at <= len(whole) + position + 1][::-1]
    else:
        starts = [at for at in starts if at >= position > 0]
    return starts[occurrence - 1] if 0 < occurrence <= len(starts) else 0


def padding(*, left: bool, most: int) -> Callable[[str, int, str], str | None]:
    """LPAD or RPAD; raises ValueError where the result would have more than `most` units."""

    def pad(text: str, length: int, fill: str) -> str | None:
        if length < 0 or not fill:
            return None
        if length > most:
            raise ValueError(f"padding makes at most {most} characters")
        whole, part = units(text), units(fill)
        more = max(length - len(whole), 0)
        added = (part * (more // len(part) + 1))[:more]
        return text_of((added + whole if left else whole + added)[:length])

    return pad


def masking(kept: Callable[[int, int, int], bool]) -> Callable[..., str]:
    """A mask of the characters that `kept(place, length, n)` is false for: a unit of a pair is
    neither letter nor digit. Arguments as of MASK_LEFT, n being 0 for MASK."""

    def mask(text: str, n: Any, *masks: Any) -> str:
        if n < 0:
            raise ValueError("the number of characters to mask is negative")
        whole = units(text)
        classes = (masks or ("X", "x", "n", "-"))[:4]
        return text_of(
            "".join(
                char if kept(place, len(whole), n) else _masked(char, classes)
                for place, char in enumerate(whole)
            )
        )

    return mask


def _masked(char: str, classes: tuple[Any, ...]) -> str:
    import unicodedata

    place = {"Lu": 0, "Ll": 1, "Nd": 2}.get(unicodedata.category(char), 3)
    given = classes[place]
    if given == "":
        raise ValueError("a mask is empty")
    return char if given is None else str(given)[0]

"""Names that somebody may have meant: the hints of errors about names that are not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal

NAME_MAX = 200
"""Longer names are compared with nothing: that would take time, and help nobody."""


class Suggested(str):
    """A hint that names a stream, table or topic. Whoever shows it to somebody who may not see
    what is `named` shows `otherwise` instead, so that nobody finds out by guessing what there is.
    As text it goes wherever the hint of an error goes."""

    __slots__ = ("kind", "named", "otherwise")

    def __new__(
        cls, text: str, kind: Literal["source", "topic"], named: str, otherwise: str = ""
    ) -> Suggested:
        """`otherwise`: what helps without the name."""
        made = super().__new__(cls, text)
        made.kind, made.named, made.otherwise = kind, named, otherwise
        return made

    kind: Literal["source", "topic"]
    named: str
    otherwise: str


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, whatever the case; None where none is alike."""
    if len(name) > NAME_MAX:
        return None
    by_fold = {other.casefold(): other for other in known}
    close = difflib.get_close_matches(name.casefold(), by_fold, 1)
    return by_fold[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint that asks for the nearest known name, before what helps `otherwise`."""
    near = nearest(name, known)
    return otherwise if near is None else f"Did you mean {near}? {otherwise}".rstrip()


def topic_hint(name: str, topics: Iterable[str], otherwise: str) -> str:
    """As `did_you_mean`, of topics; those whose names begin with an underscore are nobody's."""
    near = nearest(name, (topic for topic in topics if not topic.startswith("_")))
    if near is None:
        return otherwise
    return Suggested(f"Did you mean '{near}'? {otherwise}".rstrip(), "topic", near, otherwise)

"""Finds the nearest known names, for the hints of errors about unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal

NAME_MAX = 200
"""Longer names are not compared: that would take time and not help."""


class Suggested(str):
    """A hint that contains the name of a stream, table or topic (`named`). For a user without
    access to it, `otherwise` is shown instead, so that guessing does not reveal names. It is a
    `str` and can be used like any other hint."""

    __slots__ = ("kind", "named", "otherwise")

    def __new__(
        cls, text: str, kind: Literal["source", "topic"], named: str, otherwise: str = ""
    ) -> Suggested:
        """`otherwise`: the hint without the name."""
        made = super().__new__(cls, text)
        made.kind, made.named, made.otherwise = kind, named, otherwise
        return made

    kind: Literal["source", "topic"]
    named: str
    otherwise: str


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The most similar known name, ignoring case; None if no name is similar."""
    if len(name) > NAME_MAX:
        return None
    by_fold = {other.casefold(): other for other in known}
    close = difflib.get_close_matches(name.casefold(), by_fold, 1)
    return by_fold[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint with the nearest known name, followed by `otherwise`."""
    near = nearest(name, known)
    return otherwise if near is None else f"Did you mean {near}? {otherwise}".rstrip()


def topic_hint(name: str, topics: Iterable[str], otherwise: str) -> str:
    """As `did_you_mean`, for topics, without internal ones (a leading underscore)."""
    near = nearest(name, (topic for topic in topics if not topic.startswith("_")))
    if near is None:
        return otherwise
    return Suggested(f"Did you mean '{near}'? {otherwise}".rstrip(), "topic", near, otherwise)

"""A position in a script."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A position in the script: 1-based line and column, 0-based half-open character range."""

    line: int
    column: int
    start: int
    end: int


class PropertyName(str):
    """The name of a property, with the position of its `name = value`; it is equal to its text."""

    __slots__ = ("span",)

    span: Span | None

    def __new__(cls, text: str, span: Span | None = None) -> PropertyName:
        """The name as text, and its position."""
        made = super().__new__(cls, text)
        made.span = span
        return made

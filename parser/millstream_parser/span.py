"""A place in a script."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Where in the script: 1-based line and column, 0-based half-open character range."""

    line: int
    column: int
    start: int
    end: int

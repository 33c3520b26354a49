"""The part of a source's history that a query reads, as immutable data.

`span` never takes part in comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .span import Span

Moment = str | int
"""A time: text as in comparisons with ROWTIME, or milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """AS OF TIMESTAMP: everything up to a time, inclusive."""

    time: Moment
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """BETWEEN OFFSETS … AND …, both included: one for all partitions, or one for each of them."""

    first: tuple[int, ...]
    last: tuple[int, ...]
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """FROM TIMESTAMP … TO …: the end is not included."""

    begin: Moment
    end: Moment
    span: Span | None = field(default=None, compare=False)


Range = AsOf | OffsetRange | TimeRange
"""A part of a source's history."""

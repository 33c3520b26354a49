"""Which part of a source's history a query looks at, as immutable data.

`span` never takes part in comparison.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .span import Span

Moment = str | int
"""A time: text as ROWTIME compares with, or milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """AS OF TIMESTAMP: what there was up to a time, this time included."""

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

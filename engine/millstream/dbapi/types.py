"""What PEP 249 says about types: groups of them, and values that are made of clock ticks."""

from __future__ import annotations

import datetime as dt


class TypeGroup:
    """Equal to the type codes in `Cursor.description` of all types of a kind."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeGroup):
            return self is other
        # DECIMAL(4, 2), ARRAY<INTEGER>
        return isinstance(other, str) and other.partition("(")[0].partition("<")[0] in self._names

    def __hash__(self) -> int:
        return hash(self._names)


STRING = TypeGroup("STRING")
BINARY = TypeGroup("BYTES")
NUMBER = TypeGroup("INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "BOOLEAN")
DATETIME = TypeGroup("DATE", "TIME", "TIMESTAMP")
ROWID = TypeGroup()
"""Of no type: rows have no ids."""


def DateFromTicks(ticks: float) -> dt.date:
    """The local date of a number of seconds since 1970."""
    return dt.date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> dt.time:
    """The local time of day of a number of seconds since 1970."""
    return dt.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> dt.datetime:
    """The local time of a number of seconds since 1970."""
    return dt.datetime.fromtimestamp(ticks)

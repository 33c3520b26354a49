"""Rows that could not be used as they were: what the processing log is made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One row (or `count` rows) refused or changed, with where it came from.

    `kind` is one of DESERIALIZATION, EXPRESSION, SERIALIZATION, TIMESTAMP, LATE, NULL_KEY, or
    STATE for a state database that had to be put aside, COMMAND for a statement that failed when it
    was carried out again (no query, no topic).
    `offset` is -1 where only the number of rows is known.
    """

    kind: str
    message: str
    topic: str
    partition: int
    offset: int = -1
    count: int = 1
    raw_key: bytes | None = None
    raw_value: bytes | None = None
    side: str = ""
    """Of bytes that could not be read or written: "key" or "value"."""
    row: str | None = None
    """Of an expression that failed: the row that it was computed for, as JSON."""

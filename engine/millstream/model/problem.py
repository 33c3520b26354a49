"""The entries of the processing log: rows that could not be used as they were."""

from __future__ import annotations

from dataclasses import dataclass

LATE = "LATE"
"""The kind of rows that came after their window had closed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One row (or `count` rows) refused or changed, with where it came from.

    `kind` is one of DESERIALIZATION, EXPRESSION, SERIALIZATION, TIMESTAMP, LATE, NULL_KEY,
    PROCESSOR (for a record that a processor has failed for), LOST (records that were deleted before
    they were read), or STATE for a state database that had
    to be replaced, COMMAND for a statement that failed when it was replayed (no query, no topic).
    `offset` is -1 where only the number of rows is known.
    """

    kind: str
    message: str
    topic: str
    partition: int
    offset: int = -1
    count: int = 1
    others: tuple[int, ...] = ()
    """The offsets of further records of the partition that were skipped with it."""
    raw_key: bytes | None = None
    raw_value: bytes | None = None
    side: str = ""
    """The part of a record that could not be decoded or encoded: "key" or "value"."""
    row: str | None = None
    """The row of a failed expression, as JSON."""

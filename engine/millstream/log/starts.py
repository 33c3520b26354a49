"""Where the partitions of an embedded log start, as its file says it.

Truncating a partition writes nothing by itself: the next transaction of the file adds a row. Rows
that later ones replace are removed now and then, so that they do not add up.
"""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from millstream.log import tables
from millstream.log.stored import Stored

SPARE_ROWS = 1_000
"""How many rows there may be beyond one for each partition."""


class Starts:
    """The starts that the next transaction writes. Used under the log's lock."""

    def __init__(self) -> None:
        self.moved: dict[tuple[int, int], int] = {}
        """By the id of the topic and the partition."""
        self._rows: int | None = None
        """Those of the file; None before they are counted."""
        self._written = 0

    def write(self, cursor: duckdb.DuckDBPyConnection, topics: Iterable[Stored]) -> None:
        """Write those that have moved, inside of a transaction; `written` follows its commit.
        `topics`: all of the log, as they are now."""
        if self._rows is None:
            self._rows = tables.count_starts(cursor)
        self._written = self._rows + len(self.moved)
        if not self.moved:
            return
        if self._written <= SPARE_ROWS:
            tables.insert_starts(cursor, self.moved)
            return
        now = {
            (stored.id, partition): start
            for stored in topics
            for partition, start in enumerate(stored.starts)
            if start
        }
        if self._written <= SPARE_ROWS + len(now):
            tables.insert_starts(cursor, self.moved)
            return
        tables.replace_starts(cursor, now)
        self._written = len(now)

    def written(self) -> None:
        """Note that the transaction is committed."""
        self._rows = self._written
        self.moved.clear()

"""Whether the state tables of a session are small."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from millstream.state.tables import quoted

SMALL = 10_000
"""Reading this many rows as a whole takes less time than optimising a statement that reads some of
them."""
_TRUSTED = 64
"""After so many transactions the rows are counted again, because other sessions write to the same
tables."""
_LARGE_TRUSTED = 1024


class TableSizes:
    """The rows of some tables: counted now and then, in between those that were written are added,
    whether they are new or not."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, tables: Iterable[str]) -> None:
        counts = (
            f"(SELECT count(*) FROM (SELECT 1 FROM {quoted(name)} LIMIT {SMALL + 1}))"
            for name in tables
        )
        self._connection = connection
        self._text = f"SELECT {' + '.join(counts)}"
        self._rows = 0
        self._trusted = 0

    def small(self) -> bool:
        """Whether all of them together have few rows. Call it once in each transaction."""
        if not self._trusted:
            ((self._rows,),) = self._connection.execute(self._text).fetchall()
            self._trusted = _TRUSTED if self._rows <= SMALL else _LARGE_TRUSTED
        self._trusted -= 1
        return self._rows <= SMALL

    def wrote(self, rows: int) -> None:
        """Add rows that were written."""
        small = self._rows <= SMALL
        self._rows += rows
        if small and self._rows > SMALL:
            self._trusted = 0

    def forget(self) -> None:
        """Count again at the next transaction: others may have written a lot."""
        self._trusted = 0

"""Buffers the rows of a bounded run in a temporary table of DuckDB until all of them are computed.

DuckDB spills the table to disk when memory runs short.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from millstream.historical.planning import BoundedQuery
from millstream.model.batch import DIFF, PART, ROWTIME
from millstream.model.physical import duckdb_type
from millstream.model.schema import SourceKind
from millstream.operators.sql import identifier

_ORDER = "$order"
_NUMBERS = itertools.count()
"""Numbers for the names of temporary tables, which must differ within one cursor."""


class Spool:
    """The buffered rows of a bounded query."""

    def __init__(self, query: BoundedQuery, cursor: duckdb.DuckDBPyConnection) -> None:
        self._query = query
        self._cursor = cursor
        self._name = f"$past_{next(_NUMBERS)}"
        self._rows = 0
        typed = [f"{identifier(name)} {duckdb_type(c.type)}" for name, c in query.all_columns]
        typed += [f'"{PART}" INTEGER', f'"{ROWTIME}" BIGINT', f'"{DIFF}" TINYINT']
        columns = ", ".join((*typed, f'"{_ORDER}" BIGINT'))
        cursor.execute(f"CREATE TEMP TABLE {identifier(self._name)} ({columns})")

    def fill(self, rows: Iterator[pa.Table]) -> None:
        """Add all rows."""
        for table in rows:
            self._add(table)

    def _add(self, table: pa.Table) -> None:
        names = [*(name for name, _ in self._query.all_columns), PART, ROWTIME, DIFF]
        self._cursor.register("$rows", table.select(names))
        listed = ", ".join(map(identifier, names))
        self._cursor.execute(
            f"INSERT INTO {identifier(self._name)} SELECT {listed},"
            f' {self._rows} + row_number() OVER () FROM "$rows"'
        )
        self._cursor.unregister("$rows")
        self._rows += table.num_rows

    def relation(self) -> str:
        """A SELECT of the current rows: all rows of a stream; of a table, the last row of each key
        unless it is a deletion. It includes `$rowtime`, and `$order`, the order of arrival."""
        name = identifier(self._name)
        if self._query.kind is SourceKind.STREAM:
            return f'SELECT * FROM {name} WHERE "{DIFF}" = 1'
        keys = ", ".join(map(identifier, (PART, *self._query.keys)))
        return (
            f'SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY "{_ORDER}"'
            f' DESC) AS "$age" FROM {name}) WHERE "$age" = 1 AND "{DIFF}" = 1'
        )

    def sorted_sql(self, limit: int | None) -> str:
        """The SQL of the sorted result."""
        columns = ", ".join(map(identifier, self._query.columns))
        order = [
            f"{identifier(name)} {'DESC' if descending else 'ASC'} NULLS LAST"
            for name, descending in self._query.order
        ]
        ordering = ", ".join((*order, f'"{_ORDER}"'))
        text = f"SELECT {columns} FROM ({self.relation()}) ORDER BY {ordering}"
        return text if limit is None else f"{text} LIMIT {limit}"

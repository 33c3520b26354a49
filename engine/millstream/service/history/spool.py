"""The rows of a bounded run, on DuckDB's hands until all of them are there.

They lie in a temporary table, which DuckDB moves to disk when memory gets short.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import duckdb
import pyarrow as pa

from millstream.model.batch import DIFF, PART, ROWTIME
from millstream.model.physical import duckdb_type
from millstream.model.schema import SourceKind
from millstream.operators.sql import identifier
from millstream.service.history.planning import BoundedQuery

_ORDER = "$order"
_NUMBERS = itertools.count()
"""Names of temporary tables: those of one cursor must differ."""


class Spool:
    """The rows that a run makes; `past` says what they are."""

    def __init__(self, past: BoundedQuery, cursor: duckdb.DuckDBPyConnection) -> None:
        self.past = past
        self._cursor = cursor
        self._name = f"$past_{next(_NUMBERS)}"
        self._rows = 0
        typed = [f"{identifier(name)} {duckdb_type(c.type)}" for name, c in past.made]
        typed += [f'"{PART}" INTEGER', f'"{ROWTIME}" BIGINT', f'"{DIFF}" TINYINT']
        columns = ", ".join((*typed, f'"{_ORDER}" BIGINT'))
        cursor.execute(f"CREATE TEMP TABLE {identifier(self._name)} ({columns})")

    def take(self, rows: Iterator[pa.Table]) -> None:
        """Keep all rows."""
        for table in rows:
            self._add(table)

    def _add(self, table: pa.Table) -> None:
        names = [*(name for name, _ in self.past.made), PART, ROWTIME, DIFF]
        self._cursor.register("$piece", table.select(names))
        listed = ", ".join(map(identifier, names))
        self._cursor.execute(
            f"INSERT INTO {identifier(self._name)} SELECT {listed},"
            f' {self._rows} + row_number() OVER () FROM "$piece"'
        )
        self._cursor.unregister("$piece")
        self._rows += table.num_rows

    def relation(self) -> str:
        """A SELECT of the rows that count: all of a stream; of a table the last ones by key that
        are no deletions. With `$rowtime`, and `$order` as they came."""
        name = identifier(self._name)
        if self.past.kind is SourceKind.STREAM:
            return f'SELECT * FROM {name} WHERE "{DIFF}" = 1'
        keys = ", ".join(map(identifier, (PART, *self.past.keys)))
        return (
            f'SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY "{_ORDER}"'
            f' DESC) AS "$age" FROM {name}) WHERE "$age" = 1 AND "{DIFF}" = 1'
        )

    def answer(self, limit: int | None) -> str:
        """The text of the query for the rows that count, sorted, in the columns of the answer."""
        columns = ", ".join(map(identifier, self.past.columns))
        order = [
            f"{identifier(name)} {'DESC' if descending else 'ASC'} NULLS LAST"
            for name, descending in self.past.order
        ]
        ordering = ", ".join((*order, f'"{_ORDER}"'))
        text = f"SELECT {columns} FROM ({self.relation()}) ORDER BY {ordering}"
        return text if limit is None else f"{text} LIMIT {limit}"

"""Fills an empty state table with many rows: its indexes are made afterwards, in half the time of
maintaining them row by row."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType

import duckdb
import pyarrow as pa

from millstream.operators.program import StateTable
from millstream.state.store import Store
from millstream.state.tables import (
    columns_of,
    columns_text,
    indexed,
    key_text,
    quoted,
    schema_of,
    sought_text,
)

LOADING = "$loading"
"""What the name of the table that is filled has behind that of the one whose place it takes."""


class BulkTable:
    """A table beside a state table that is empty and that nobody writes to.

    >>> with BulkTable(store, "CTAS_T_1", 0, table) as bulk: bulk.add(rows); ...; bulk.finish()
    """

    def __init__(self, store: Store, query_id: str, subtopology: int, table: StateTable) -> None:
        self._table = table
        self._schema = f"{quoted(store.database)}.{quoted(schema_of(query_id, subtopology))}"
        self._name = quoted(f"{table.name}{LOADING}")
        self._store = store
        self._cursor = store.cursor()
        self._cursor.execute(
            f"CREATE OR REPLACE TABLE {self._schema}.{self._name} ({columns_text(table)})"
        )

    def add(self, rows: pa.Table) -> None:
        """Add rows whose keys are not in the table yet."""
        columns = ", ".join(map(quoted, columns_of(self._table)))
        self._cursor.register("$rows", rows)
        self._cursor.execute(
            f'INSERT INTO {self._schema}.{self._name} ({columns}) SELECT {columns} FROM "$rows"'
        )
        self._cursor.unregister("$rows")

    def finish(self) -> None:
        """Put it in the place of the state table. A kill in between may leave out the index for
        pull queries, which the next session makes."""
        own = quoted(self._table.name)
        beside = f"{self._schema}.{self._name}"
        if indexed(self._table):
            self._cursor.execute(f"ALTER TABLE {beside} ADD PRIMARY KEY ({key_text(self._table)})")
        self._cursor.execute("BEGIN")
        self._cursor.execute(f"DROP TABLE {self._schema}.{own}")
        self._cursor.execute(f"ALTER TABLE {beside} RENAME TO {own}")
        self._cursor.execute("COMMIT")
        sought = sought_text(self._schema, self._table)
        if sought is not None:
            self._cursor.execute(sought)

    def __enter__(self) -> BulkTable:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drop it unless it has taken the place."""
        try:
            with suppress(duckdb.TransactionException):
                self._cursor.execute("ROLLBACK")
            self._cursor.execute(f"DROP TABLE IF EXISTS {self._schema}.{self._name}")
        finally:
            self._cursor.close()
            self._store.altered()


def drop_leftovers(store: Store) -> None:
    """Drop tables that a kill has left half filled."""
    with store.cursor() as cursor:
        found = cursor.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ?"
            f" AND ends_with(table_name, '{LOADING}')",
            [store.database],
        ).fetchall()
        for schema, name in found:
            cursor.execute(f"DROP TABLE {quoted(store.database)}.{quoted(schema)}.{quoted(name)}")
    store.altered()

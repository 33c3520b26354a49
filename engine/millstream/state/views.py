"""The Arrow tables that are registered by name with one connection, and its statements over
them."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from millstream.model.arrow_rows import ArrowRows

FEW = 1000
"""Up to this many rows, binding a statement takes longer than running it."""


class Views:
    """Names stay bound to relations of one schema while their rows change, so that statements that
    run repeatedly over few rows are bound once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._views: dict[str, ArrowRows] = {}
        self._many: set[str] = set()
        """Names bound to a large table itself, so that DuckDB has its row count."""
        self._relations: dict[str, duckdb.DuckDBPyRelation] = {}
        """SELECTs that ran over few rows before. Reading such a relation again runs it again, which
        submits one statement; a prepared one would be submitted twice."""
        self._seen: dict[str, str | None] = {}
        """Other statements that ran over few rows before, with their names once they are prepared.
        """
        self._prepared = 0

    def show(self, name: str, table: pa.Table) -> None:
        """Bind `name` to these rows."""
        view = self._views.get(name)
        if table.num_rows > FEW:
            self._forget_statements()
            self._views.pop(name, None)
            self._many.add(name)
            self._connection.register(name, table)
        elif view is not None and view.table.schema.equals(table.schema, check_metadata=True):
            view.table = table
        else:
            self._forget_statements()
            self._many.discard(name)
            self._views[name] = view = ArrowRows(table)
            self._connection.register(name, view)

    def release(self) -> None:
        """Release all rows except a few."""
        for name in self._many:
            self._connection.unregister(name)
        self._many.clear()

    def forget(self) -> None:
        """Names that were created in a transaction are gone with it."""
        self._views.clear()
        self._many.clear()
        self._forget_statements()

    def query(self, text: str, *, few: bool) -> pa.Table:
        """The rows of a SELECT. `few`: it runs over few rows and may run repeatedly."""
        if not few:
            return self._connection.sql(text).to_arrow_table()
        relation = self._relations.get(text)
        if relation is None:
            relation = self._relations[text] = self._connection.sql(text)
        return relation.to_arrow_table()

    def execute(self, text: str, *, few: bool) -> None:
        """Run a statement that returns no rows."""
        self._connection.execute(self._statement(text, few=few))

    def _statement(self, text: str, *, few: bool) -> str:
        if not few:
            return text
        if text not in self._seen:
            self._seen[text] = None
            return text
        name = self._seen[text]
        if name is None:
            self._prepared += 1
            name = f"statement_{self._prepared}"
            self._connection.execute(f"PREPARE {name} AS {text}")
            self._seen[text] = name
        return f"EXECUTE {name}"

    def _forget_statements(self) -> None:
        for name in self._seen.values():
            if name is not None:
                self._connection.execute(f"DEALLOCATE {name}")
        self._seen.clear()
        self._relations.clear()

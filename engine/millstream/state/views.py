"""The Arrow tables that are registered by name with one connection, and its statements over
them."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from millstream.model.arrow_rows import ArrowRows
from millstream.state.statements import Statements, arrow_of

FEW = 1000
"""Up to this many rows, binding a statement takes longer than running it."""
HANDFUL = 100
"""Up to this many rows, and with small tables, optimising a statement takes longer than running it
as it is written."""


class Views:
    """Names stay bound to relations of one schema while their rows change, so that statements that
    run repeatedly over few rows are bound once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._views: dict[str, ArrowRows] = {}
        self._many: set[str] = set()
        """Names bound to a large table itself, so that DuckDB has its row count."""
        self._relations: dict[str, duckdb.DuckDBPyRelation] = {}
        """SELECTs that ran over few rows before. Reading such a relation again runs it again."""
        self._statements = Statements(connection, "statement")
        self.small = True
        """Whether every table that the statements read or write has few rows."""

    def show(self, name: str, table: pa.Table) -> None:
        """Bind `name` to these rows."""
        view = self._views.get(name)
        if table.num_rows > FEW:
            self.prepare_again()
            self._views.pop(name, None)
            self._many.add(name)
            self._connection.register(name, table)
        elif view is not None and view.table.schema.equals(table.schema, check_metadata=True):
            view.table = table
        else:
            self.prepare_again()
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
        self.prepare_again()

    def query(self, text: str, *, size: int) -> pa.Table:
        """The rows of a SELECT, which may run repeatedly. `size`: the most rows of a relation that
        it reads."""
        if size > FEW:
            return self._connection.sql(text).to_arrow_table()
        if self._as_written(size) and (name := self._statements.name(text, as_written=True)):
            return arrow_of(self._connection, f"EXECUTE {name}")
        relation = self._relations.get(text)
        if relation is None:
            relation = self._relations[text] = self._connection.sql(text)
        return relation.to_arrow_table()

    def execute(self, text: str, *, size: int) -> None:
        """Run a statement that returns no rows, and may run repeatedly. `size` as for `query`."""
        name = None
        if size <= FEW:
            name = self._statements.name(text, as_written=self._as_written(size))
        self._connection.execute(text if name is None else f"EXECUTE {name}")

    def _as_written(self, size: int) -> bool:
        return self.small and size <= HANDFUL

    def prepare_again(self) -> None:
        """Prepare all statements anew: what they name may be something else."""
        self._statements.forget()
        self._relations.clear()

"""Names for the rows that the transactions of one connection insert."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from millstream.model.arrow_rows import ArrowRows

_FEW = 1000
"""Up to this many rows, binding a name takes a good part of the time of inserting them."""


class BoundRows:
    """Keeps a name for each schema, so that it is bound once. A transaction that is rolled back
    takes its names with it: the connection is then not to be used again."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._known: dict[pa.Schema, tuple[str, ArrowRows]] = {}

    @contextmanager
    def named(self, rows: pa.Table) -> Iterator[str]:
        """A name for these rows in the connection's statements."""
        if rows.num_rows > _FEW:
            # DuckDB reads a table that is bound itself with several threads.
            self._connection.register("millstream_appended", rows)
            yield "millstream_appended"
            self._connection.unregister("millstream_appended")
            return
        if rows.schema not in self._known:
            name = f"millstream_appended_{len(self._known)}"
            self._known[rows.schema] = name, ArrowRows(rows)
            self._connection.register(name, self._known[rows.schema][1])
        name, bound = self._known[rows.schema]
        bound.table = rows
        yield name
        bound.table = rows.schema.empty_table()

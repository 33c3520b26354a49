"""The prepared statements of one connection."""

from __future__ import annotations

from contextlib import suppress

import duckdb
import pyarrow as pa

from millstream.model.duckdb_settings import OPTIMIZER

_BATCH_ROWS = 131_072


class Statements:
    """Statements that run repeatedly are prepared the second time.

    DuckDB optimises a prepared statement again each time it runs, which is most of its time over a
    handful of rows. One that was prepared `as_written`, while the optimiser was off, keeps its
    plan: right, but slow over many rows.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, prefix: str) -> None:
        """`prefix` begins the names; another one of the same connection needs another."""
        self._connection = connection
        self._prefix = prefix
        self._seen: dict[tuple[str, bool], str | None] = {}
        self._prepared = 0
        self._off = False

    def name(self, text: str, *, as_written: bool) -> str | None:
        """The name to EXECUTE; None when the statement is seen for the first time."""
        key = text, as_written
        if key not in self._seen:
            self._seen[key] = None
            return None
        name = self._seen[key]
        if name is None:
            self._prepared += 1
            name = f"{self._prefix}_{self._prepared}"
            self._prepare(f"PREPARE {name} AS {text}", as_written=as_written)
            self._seen[key] = name
        return name

    def forget(self) -> None:
        """Deallocate all; the connection has no transaction that was aborted."""
        if self._off:
            self._optimise(on=True)
        for name in self._seen.values():
            if name is not None:
                self._connection.execute(f"DEALLOCATE {name}")
        self._seen.clear()

    def _prepare(self, text: str, *, as_written: bool) -> None:
        if not as_written:
            self._connection.execute(text)
            return
        self._optimise(on=False)
        try:
            self._connection.execute(text)
        finally:
            # An aborted transaction refuses this; `forget` is called when it has been rolled back.
            with suppress(duckdb.Error):
                self._optimise(on=True)

    def _optimise(self, *, on: bool) -> None:
        self._connection.execute(f"SET SESSION {OPTIMIZER} = {on}")
        self._off = not on


def arrow_of(connection: duckdb.DuckDBPyConnection, text: str) -> pa.Table:
    """The rows of an EXECUTE. DuckDB's own relations read theirs by the method used here, which is
    not public. Of the public ones, a relation would run the statement twice, and a cursor copies
    the rows by a second statement, which takes longer than the first."""
    submit = getattr(connection, "_submit", None)
    if submit is None:
        return connection.execute(text).to_arrow_table()
    return submit(text, None, "arrow", _BATCH_ROWS).arrow_table()

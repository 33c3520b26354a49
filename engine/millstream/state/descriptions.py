"""What each state table of a database is, written beside them: its columns alone do not tell which
of them are its key, nor when its rows expire. `millstream check` compares the tables by it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

import duckdb

from millstream.model.batch import PART, ROWTIME
from millstream.operators.program import Expiry, StateTable
from millstream.state.tables import quoted, schema_of

DESCRIPTIONS = '"$tables"'


def descriptions_table(database: str) -> str:
    """The full SQL name of the table of all descriptions."""
    return f"{quoted(database)}.main.{DESCRIPTIONS}"


class Descriptions:
    """Those of one database, which only this process writes: read once, and kept."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, database: str) -> None:
        """Creates the table when it is absent."""
        self._table = descriptions_table(database)
        self._writing = threading.Lock()
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table}"
            " (query VARCHAR, subtopology INTEGER, described VARCHAR)"
        )
        rows = connection.execute(f"FROM {self._table}").fetchall()
        self._known = {(query_id, sub): json.loads(text) for query_id, sub, text in rows}

    def write(
        self,
        connection: duckdb.DuckDBPyConnection,
        query_id: str,
        subtopology: int,
        tables: Sequence[StateTable],
    ) -> None:
        """Describe the tables of a sub-topology, unless they are described like this already. The
        connection has no transaction."""
        whose = query_id, subtopology
        with self._writing:
            before = self._known.get(whose, {})
            now = {table.name: _of(table, before.get(table.name)) for table in tables}
            if now == before:
                return
            values = [query_id, subtopology, json.dumps(now)]
            if before:
                text = f"UPDATE {self._table} SET described = $3 WHERE query = $1"
                connection.execute(f"{text} AND subtopology = $2", values)
            else:
                connection.execute(f"INSERT INTO {self._table} VALUES ($1, $2, $3)", values)
            self._known[whose] = now

    def drop(self, connection: duckdb.DuckDBPyConnection, query_id: str) -> None:
        """Forget the tables of a query."""
        with self._writing:
            connection.execute(f"DELETE FROM {self._table} WHERE query = ?", [query_id])
            for whose in [whose for whose in self._known if whose[0] == query_id]:
                del self._known[whose]


def _of(table: StateTable, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """A description. Rows that expired by a query's earlier definition are gone, so of several
    the soonest expiry counts."""
    expiry = table.expiry
    if expiry is not None and before is not None and before["expiry"] is not None:
        earlier = Expiry(*before["expiry"])
        expiry = replace(expiry, after_ms=min(expiry.after_ms, earlier.after_ms))
    return {
        "key": [name for name, _ in table.key],
        "nullable": table.nullable,
        "appended": table.appended,
        "expiry": None if expiry is None else list(astuple(expiry)),
    }


def described(
    connection: duckdb.DuckDBPyConnection, database: str
) -> Mapping[tuple[str, int], tuple[StateTable, ...]]:
    """The tables of each query and sub-topology in a state database, with the columns that they
    have. Empty for one that an earlier version wrote."""
    try:
        rows = connection.execute(f"FROM {descriptions_table(database)}").fetchall()
    except duckdb.CatalogException:
        return {}
    columns: dict[tuple[str, str], dict[str, str]] = {}
    for schema, name, column, kind in connection.execute(
        "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns()"
        " WHERE database_name = ? ORDER BY column_index",
        [database],
    ).fetchall():
        columns.setdefault((schema, name), {})[column] = kind
    return {
        (query_id, sub): tuple(
            _table(name, columns[schema_of(query_id, sub), name], about)
            for name, about in json.loads(text).items()
            if (schema_of(query_id, sub), name) in columns
        )
        for query_id, sub, text in rows
    }


def _table(name: str, columns: Mapping[str, str], about: Mapping[str, Any]) -> StateTable:
    key = about["key"]
    return StateTable(
        name,
        tuple((column, columns[column]) for column in key),
        tuple((c, kind) for c, kind in columns.items() if c not in (PART, ROWTIME, *key)),
        plain=ROWTIME not in columns,
        nullable=about["nullable"],
        appended=about["appended"],
        expiry=None if about["expiry"] is None else Expiry(*about["expiry"]),
    )

"""What each state table of a database is, written beside them: its columns alone do not tell which
of them are its key, nor when its rows expire. `millstream check` compares the tables by it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
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


def create_descriptions(connection: duckdb.DuckDBPyConnection, database: str) -> None:
    """Create the table when it is absent."""
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {descriptions_table(database)} (query VARCHAR,"
        " subtopology INTEGER, described VARCHAR, PRIMARY KEY (query, subtopology))"
    )


def describe(
    connection: duckdb.DuckDBPyConnection,
    database: str,
    query_id: str,
    subtopology: int,
    tables: Sequence[StateTable],
) -> None:
    """Describe the tables of a sub-topology, unless they are described like this already. Outside
    of a transaction."""
    table = descriptions_table(database)
    found = connection.execute(
        f"SELECT described FROM {table} WHERE query = ? AND subtopology = ?",
        [query_id, subtopology],
    ).fetchall()
    before = json.loads(found[0][0]) if found else {}
    now = {table.name: _of(table, before.get(table.name)) for table in tables}
    if now == before:
        return
    # Another session of the same sub-topology may be writing the same.
    with suppress(duckdb.TransactionException, duckdb.ConstraintException):
        connection.execute(
            f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)",
            [query_id, subtopology, json.dumps(now)],
        )


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

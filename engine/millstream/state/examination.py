"""Reads everything in a state database, and tells what cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb

from millstream.state.positions import POSITIONS, positions_table
from millstream.state.tables import quoted


def examine_state(
    connection: duckdb.DuckDBPyConnection,
) -> Iterator[tuple[str, str]]:
    """Read all tables of a state database that `connection` has opened: the name of one that is
    damaged, and what is wrong with it."""
    try:
        tables = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables()"
            " WHERE database_name = current_database() ORDER BY ALL"
        ).fetchall()
    except duckdb.Error as error:
        yield "the list of tables", str(error).splitlines()[0]
        return
    for schema, name in tables:
        try:
            relation = connection.sql(f"FROM {quoted(schema)}.{quoted(name)}")
            for _ in relation.to_arrow_reader(65_536):
                pass
        except duckdb.Error as error:
            yield f"table {schema}.{name}", str(error).splitlines()[0]


def ahead_of_changelogs(
    connection: duckdb.DuckDBPyConnection,
    prefix: str,
    end_of: Callable[[str, int], int | None],
    database: str | None = None,
) -> Iterator[tuple[str, str]]:
    """Where the state knows more than its changelogs, and what is wrong there. `prefix`: that of
    internal topics; `end_of`: the end of a topic's partition, None if there is none; `database`:
    the name of the state's, None for that of the connection."""
    table = f"main.{POSITIONS}" if database is None else positions_table(database)
    rows = connection.execute(f"SELECT query, subtopology, part, position FROM {table}").fetchall()
    for query, sub, part, at in rows:
        end = end_of(f"{prefix}{query}-{sub}-changelog", part)
        if end is not None and at > end:
            where = f"state of {query}, sub-topology {sub}, partition {part}"
            yield where, f"it is as of {at}, but its changelog ends at {end}"

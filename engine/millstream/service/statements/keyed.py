"""Pull queries by key that are prepared once: many keys are answered by one query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.model.schema import Schema, SourceKind
from millstream.plan.build import Planned
from millstream.query.conditions import Value
from millstream.query.keyed import key_column, keys_sql, with_keys
from millstream.service import wordings
from millstream.service.cluster.scatter_gather import kept, pull_schema
from millstream.service.engine import Engine
from millstream.service.failures import reason
from millstream.service.statements.pulling import beyond_pull, planned_pull
from millstream_parser import statements as s

T = TypeVar("T")
Rows = Sequence[tuple[Any, ...]]
"""Rows that begin with the columns of a query."""
Places = list[Sequence[int]]
"""Which rows are each key's."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyedPull:
    """A pull query but for its key, in the world of one catalog. `sql`: see `keys_sql`."""

    statement: s.SelectStatement
    source: Source
    schema: Schema
    sql: str
    catalog: Catalog
    kept_by: tuple[str, Planned]

    def holds(self, engine: Engine) -> bool:
        """Whether it would be prepared the same now."""
        query_id, planned = self.kept_by
        return engine.catalog is self.catalog and engine.plans.get(query_id) is planned


def keyed_pull(statement: s.Statement, script: str, engine: Engine) -> KeyedPull | None:
    """Prepare a query whose text ends with the key; None where it asks for more than the rows of a
    key, or where they may lie on other instances.

    StatementError where the query is refused.
    """
    query = statement.query if isinstance(statement, s.SelectStatement) else None
    catalog = engine.catalog
    if (
        query is None
        or query.emit is not None
        or query.source.range is not None
        or engine.routing is not None
        or beyond_pull(query) is not None
    ):
        return None
    source = catalog.source(query.source.name)
    if source.kind is not SourceKind.TABLE or source.window is not None:
        return None
    plan = planned_pull(query, source, engine, script)
    column = key_column(query, plan, Schema(source.schema.key))
    if column is None:
        return None
    table = kept(source, engine)
    assert isinstance(statement, s.SelectStatement)
    kept_by = (table.query_id, engine.plans[table.query_id])
    sql = keys_sql(plan, table.view, pull_schema(source), column)
    return KeyedPull(statement, source, plan.schema, sql, catalog, kept_by)


def keyed_rows(pull: KeyedPull, keys: Sequence[Value], engine: Engine) -> tuple[Rows, Places]:
    """The rows of all the keys, all of one moment, as Python values. May wait."""

    def rows(cursor: duckdb.DuckDBPyConnection, text: str) -> Rows:
        # Half of what a relation costs, which is planned twice.
        return cursor.execute(text).fetchall()

    found = _found(pull, keys, engine, rows)
    return found, _places(keys, [row[-1] for row in found])


def keyed_table(pull: KeyedPull, keys: Sequence[Value], engine: Engine) -> tuple[pa.Table, Places]:
    """As `keyed_rows`, as a table with the columns of the query."""

    def table(cursor: duckdb.DuckDBPyConnection, text: str) -> pa.Table:
        return cursor.sql(text).to_arrow_table()

    found = _found(pull, keys, engine, table)
    asked = found.num_columns - 1
    rows = found.remove_column(asked).rename_columns(list(pull.schema.names))
    return rows, _places(keys, found.column(asked).to_pylist())


def _found(
    pull: KeyedPull,
    keys: Sequence[Value],
    engine: Engine,
    read: Callable[[duckdb.DuckDBPyConnection, str], T],
) -> T:
    cursor = engine.store.cursor()
    try:
        return read(cursor, with_keys(pull.sql, dict.fromkeys(keys)))
    except duckdb.Error as error:
        raise wordings.PULL_OF_SOURCE_FAILED(
            source=pull.source.name, detail=reason(error)
        ) from error
    finally:
        cursor.close()


def _places(keys: Sequence[Value], found: Sequence[Value]) -> Places:
    """`found`: the key of each row."""
    places: dict[Value, list[int]] = {key: [] for key in keys}
    for place, key in enumerate(found):
        places[key].append(place)
    return [places[key] for key in keys]

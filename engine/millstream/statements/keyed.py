"""Prepares pull queries by key once, and looks up many keys with one SQL query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.cluster.cluster import Cluster
from millstream.cluster.restored import check_restored
from millstream.cluster.scatter_gather import materialized_table, pull_schema
from millstream.cluster.stores import source_named
from millstream.model.schema import Schema, SourceKind
from millstream.plan.build import Planned
from millstream.query.conditions import Value
from millstream.query.failures import reason
from millstream.query.keyed import key_column, keys_sql, with_keys
from millstream.statements import wordings
from millstream.statements.pulling import look_at, planned_pull, unsupported_clause
from millstream.topology.topology import SubTopology
from millstream_parser import statements as s

T = TypeVar("T")
RowTuples = Sequence[tuple[Any, ...]]
"""Rows whose first columns are those of the pull query; the requested key follows."""
RowIndexes = list[Sequence[int]]
"""For each requested key, the indexes of its rows."""


@dataclass(frozen=True, slots=True, eq=False)
class KeyedPull:
    """A pull query without its key, prepared on one version of the catalog. `sql`: see `keys_sql`.
    `maintained_by`: the query that maintains the table, and its plan; `sub`: where its state is."""

    statement: s.SelectStatement
    source: Source
    schema: Schema
    sql: str
    catalog: Catalog
    maintained_by: tuple[str, Planned]
    sub: SubTopology

    def is_current(self, cluster: Cluster) -> bool:
        """Whether the catalog and the plan that it was prepared on are still current."""
        query_id, planned = self.maintained_by
        return (
            cluster.registry.catalog is self.catalog
            and cluster.registry.plans.get(query_id) is planned
        )


def keyed_pull(statement: s.Statement, script: str, cluster: Cluster) -> KeyedPull | None:
    """Prepare a query whose text ends with the key. Returns None if the query needs more than the
    rows of that key, or if other instances may hold them.

    Raises StatementError if the query is refused.
    """
    query = statement.query if isinstance(statement, s.SelectStatement) else None
    catalog = cluster.registry.catalog
    if (
        query is None
        or query.emit is not None
        or query.source.range is not None
        or cluster.routing is not None
        or unsupported_clause(query) is not None
    ):
        return None
    source = source_named(cluster.registry, query.source.name)
    if source.kind is not SourceKind.TABLE or source.window is not None:
        return None
    plan = planned_pull(query, source, cluster.registry, script)
    column = key_column(query, plan, Schema(source.schema.key))
    if column is None:
        return None
    table = materialized_table(source, cluster)
    assert isinstance(statement, s.SelectStatement)
    maintained_by = (table.query_id, cluster.registry.plans[table.query_id])
    sql = keys_sql(plan, table.view, pull_schema(source), column)
    return KeyedPull(statement, source, plan.schema, sql, catalog, maintained_by, table.sub)


def keyed_rows(
    pull: KeyedPull, keys: Sequence[Value], cluster: Cluster
) -> tuple[RowTuples, RowIndexes]:
    """The rows of all keys from one snapshot, as Python values. May block. Raises UnavailableError
    (E-NOT-READY) while the state is being restored."""

    def rows(cursor: duckdb.DuckDBPyConnection, text: str) -> RowTuples:
        # A relation would be planned twice, and cost twice as much.
        return cursor.execute(text).fetchall()

    found = _read(pull, keys, cluster, rows)
    return found, _row_indexes(keys, [row[-1] for row in found])


def keyed_table(
    pull: KeyedPull, keys: Sequence[Value], cluster: Cluster
) -> tuple[pa.Table, RowIndexes]:
    """The same as `keyed_rows`, as an Arrow table with the columns of the query."""

    def table(cursor: duckdb.DuckDBPyConnection, text: str) -> pa.Table:
        return cursor.sql(text).to_arrow_table()

    found = _read(pull, keys, cluster, table)
    key_index = found.num_columns - 1
    rows = found.remove_column(key_index).rename_columns(list(pull.schema.names))
    return rows, _row_indexes(keys, found.column(key_index).to_pylist())


def _read(
    pull: KeyedPull,
    keys: Sequence[Value],
    cluster: Cluster,
    read: Callable[[duckdb.DuckDBPyConnection, str], T],
) -> T:
    look_at([pull.source], cluster.registry)
    check_restored(cluster.registry, pull.maintained_by[0], pull.sub)
    cursor = cluster.registry.store.cursor()
    try:
        return read(cursor, with_keys(pull.sql, dict.fromkeys(keys)))
    except duckdb.Error as error:
        failed = wordings.PULL_OF_SOURCE_FAILED(source=pull.source.name, detail=reason(error))
        raise cluster.registry.store.damage(error) or failed from error
    finally:
        cursor.close()


def _row_indexes(keys: Sequence[Value], row_keys: Sequence[Value]) -> RowIndexes:
    """The rows of each of `keys`; `row_keys` has the key of each row."""
    indexes: dict[Value, list[int]] = {key: [] for key in keys}
    for index, key in enumerate(row_keys):
        indexes[key].append(index)
    return [indexes[key] for key in keys]

"""Pull queries by key that are prepared once: many keys are answered by one query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.model.errors import StatementError
from millstream.model.schema import Schema, SourceKind
from millstream.plan.build import Planned
from millstream.query.conditions import Value
from millstream.query.keyed import ASKED, key_column, keys_sql
from millstream.query.pull import Pull
from millstream.service.engine import Engine
from millstream.service.failures import reason
from millstream.service.instances.gathering import kept, pull_schema
from millstream.service.statements.pulling import beyond_pull, planned_pull
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True, eq=False)
class KeyedPull:
    """A pull query but for its key, in the world of one catalog."""

    statement: s.SelectStatement
    source: Source
    plan: Pull
    rows: str
    column: str
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
    return KeyedPull(statement, source, plan, table.text, column, catalog, kept_by)


def keyed_rows(
    pull: KeyedPull, keys: Sequence[Value], engine: Engine
) -> tuple[pa.Table, list[Sequence[int]]]:
    """The rows of all the keys, all of one moment, and which of them are each key's. May wait."""
    wanted = tuple(dict.fromkeys(keys))
    schema = pull_schema(pull.source)
    text = keys_sql(pull.plan, f"({pull.rows})", schema, pull.column, wanted)
    cursor = engine.store.cursor()
    try:
        table = cursor.sql(text).to_arrow_table()
    except duckdb.Error as error:
        raise StatementError(
            f"The pull query on {pull.source.name} failed.", detail=reason(error)
        ) from error
    finally:
        cursor.close()
    places: dict[Value, list[int]] = {key: [] for key in wanted}
    for place, key in enumerate(table.column(ASKED).to_pylist()):
        places[key].append(place)
    rows = table.drop_columns([ASKED]).rename_columns(list(pull.plan.schema.names))
    return rows, [places[key] for key in keys]

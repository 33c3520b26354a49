"""State tables as SQL: their names, columns and keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.model.batch import PART, ROWTIME
from millstream.operators.program import Expiry, StateTable

DELETED = "$deleted"
"""BOOLEAN column of rows to write: TRUE removes the row of that key."""
_INDEXABLE = frozenset(
    {"BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "BLOB", "DATE", "TIME", "TIMESTAMP"}
)


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def schema_of(query_id: str, subtopology: int) -> str:
    """The schema that holds the state tables of a sub-topology."""
    return f"{query_id}_{subtopology}"


def columns_of(table: StateTable) -> tuple[str, ...]:
    """The columns of a state table in order."""
    own = tuple(name for name, _ in (*table.key, *table.value))
    return (PART, *own) if table.plain else (PART, *own, ROWTIME)


def indexed(table: StateTable) -> bool:
    """Whether the table has a primary key: DuckDB cannot index nested types, and decimals only
    within 64 bits. Deciding by the type's text keeps tables of one program alike everywhere."""
    plain = not (table.nullable or table.appended)
    return plain and all(kind in _INDEXABLE for _, kind in table.key)


def stored_place(table: StateTable) -> str:
    """Joins the stored row of each new one: replacing rows in storage order is ten times cheaper
    than in any other order."""
    names = (PART, *(name for name, _ in table.key))
    same = " AND ".join(f"t.{quoted(name)} = r.{quoted(name)}" for name in names)
    return f" LEFT JOIN {quoted(table.name)} t ON {same}"


def create_text(schema: str, table: StateTable) -> str:
    """The statement that creates a state table when it is absent."""
    columns = columns_text(table)
    if indexed(table):
        columns += f", PRIMARY KEY ({key_text(table)})"
    return f"CREATE TABLE IF NOT EXISTS {schema}.{quoted(table.name)} ({columns})"


def key_text(table: StateTable) -> str:
    """The columns of which a row is the only one with these values."""
    return ", ".join(quoted(name) for name in (PART, *(name for name, _ in table.key)))


def columns_text(table: StateTable) -> str:
    """The columns of a state table with their types."""
    types: dict[str, Any] = dict((*table.key, *table.value))
    columns = [f"{quoted(PART)} INTEGER"]
    columns += [f"{quoted(name)} {kind}" for name, kind in types.items()]
    if not table.plain:
        columns.append(f"{quoted(ROWTIME)} BIGINT")
    return ", ".join(columns)


def sought_text(schema: str, table: StateTable) -> str | None:
    """The statement that creates the index with which pull queries find a key's rows. DuckDB uses
    indexes of one column only: None if there are more, or if it cannot be indexed."""
    if not indexed(table) or len(table.key) != 1:
        return None
    ((column, _),) = table.key
    index = quoted(f"{table.name}$sought")
    return f"CREATE INDEX IF NOT EXISTS {index} ON {schema}.{quoted(table.name)} ({quoted(column)})"


def expired_text(expiry: Expiry, joined: str = "USING") -> str:
    """USING … WHERE …, for the rows of a table `t` that have expired; AND … may be appended."""
    part, time = quoted(PART), quoted(expiry.time)
    return (
        f"{joined} {quoted(expiry.clock)} c"
        f" WHERE t.{part} = c.{part} AND t.{time} < c.{quoted(expiry.column)} - {expiry.after_ms}"
    )


def delete_text(table: StateTable, source: str) -> str:
    """The statement that removes the rows whose keys are in `source`."""
    same = " AND ".join(
        f"t.{quoted(name)} {'=' if name == PART or indexed(table) else 'IS NOT DISTINCT FROM'}"
        f" r.{quoted(name)}"
        for name, _ in ((PART, "INTEGER"), *table.key)
    )
    where = f" AND r.{quoted(DELETED)}" if indexed(table) else ""
    return f"DELETE FROM {quoted(table.name)} t USING {quoted(source)} r WHERE {same}{where}"


def upsert_texts(
    table: StateTable, source: str, *, deleting: bool, fresh: bool, many: bool = False
) -> Iterator[str]:
    """The statements that write the rows of `source` by key. `deleting`: those with `$deleted` are
    removed; `fresh`: no key is in the table yet; `many`: sort by the place of the stored rows."""
    if deleting or not (fresh or indexed(table)):
        yield delete_text(table, source)
    columns = ", ".join(map(quoted, columns_of(table)))
    chosen = ", ".join(f"r.{quoted(column)}" for column in columns_of(table))
    yield (
        f"INSERT {'OR REPLACE ' if indexed(table) else ''}INTO {quoted(table.name)} ({columns}) "
        f"SELECT {chosen} FROM {quoted(source)} r"
        f"{stored_place(table) if many else ''}"
        f"{f' WHERE NOT r.{quoted(DELETED)}' if deleting else ''}"
        f"{' ORDER BY t.rowid' if many else ''}"
    )

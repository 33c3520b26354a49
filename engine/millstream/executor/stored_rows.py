"""What the stores of processors held when a run began: rows of the tables of a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from millstream.functions.user_values import kept_by_arrow, seen_by_user
from millstream.model.batch import PART
from millstream.model.physical import arrow_type
from millstream.model.python_values import python_values
from millstream.model.types import Array, Map, SqlType, Struct
from millstream.operators.process import VALUE
from millstream.operators.program import StoreTable
from millstream.processors.stores import TimePart
from millstream.state.store import Session
from millstream.state.tables import quoted

_PAGE = 10_000
"""The rows that a range reads at a time."""
_ISOLATED = (
    "SET threads = 1; SET enable_external_access = false; SET python_enable_replacements = false;"
    " SET lock_configuration = true;"
)
_STORE = (
    "WITH store AS (SELECT s.* FROM stored s ANTI JOIN gone g ON s.key = g.key"
    " UNION ALL SELECT * FROM new)"
)


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as users see them."""
    values = python_values(column)
    if not pa.types.is_nested(column.type):
        return values
    return [seen_by_user(value, column.type) for value in values]


def column_of(values: Iterable[Any], kind: SqlType) -> pa.Array:
    """The opposite of `values_of`."""
    if isinstance(kind, Array | Map | Struct):
        values = (kept_by_arrow(value, kind) for value in values)
    return pa.array(list(values), arrow_type(kind))


@dataclass(frozen=True, slots=True)
class StoredTable:
    """The `StoredRows` of a store and task."""

    session: Session
    store: StoreTable
    part: int

    def get(self, keys: Sequence[Any]) -> Mapping[Any, Any]:
        """See `StoredRows`."""
        store = self.store
        wanted = pa.table(dict(zip(store.key_columns, key_columns(keys, store), strict=True)))
        name = f"{store.table}_keys"
        self.session.views.show(name, wanted)
        same = " AND ".join(f"s.{column} = k.{column}" for column in store.key_columns)
        text = (
            f"SELECT {', '.join(f's.{column}' for column in (*store.key_columns, VALUE))}"
            f" FROM {quoted(store.table)} s SEMI JOIN {quoted(name)} k ON {same}"
            f" WHERE s.{quoted(PART)} = {self.part}"
        )
        return dict(_pairs(self.session.views.query(text, size=len(keys)), store))

    def range(self, start: Any, end: Any) -> Iterator[tuple[Any, Any]]:
        """See `StoredRows`."""
        columns = ", ".join(self.store.key_columns)
        row = columns if len(self.store.keys) == 1 else f"({columns})"
        past = ">="
        marks = "?" if len(self.store.keys) == 1 else f"({', '.join('?' * len(self.store.keys))})"
        while True:
            bounds = [(past, start), ("<", end)]
            given = [(operator, key) for operator, key in bounds if key is not None]
            where = "".join(f" AND {row} {operator} {marks}" for operator, _ in given)
            text = (
                f"SELECT {columns}, {VALUE} FROM {quoted(self.store.table)}"
                f" WHERE {quoted(PART)} = {self.part}{where} ORDER BY {columns} LIMIT {_PAGE}"
            )
            values = [part for _, key in given for part in _key_parts(key, self.store)]
            page: pa.Table = self.session.connection.sql(text, params=values).to_arrow_table()
            yield from _pairs(page, self.store)
            if page.num_rows < _PAGE:
                return
            past, start = ">", _keys_of(page, self.store)[-1]

    def before(self, time: TimePart, bound: int) -> list[Any]:
        """See `StoredRows`."""
        columns = ", ".join(self.store.key_columns)
        text = (
            f"SELECT {columns} FROM {quoted(self.store.table)}"
            f" WHERE {quoted(PART)} = {self.part} AND {time.value} < ? ORDER BY {columns}"
        )
        found = self.session.connection.sql(text, params=[bound]).to_arrow_table()
        return _keys_of(found, self.store)

    def sql(
        self, query: str, changed: Mapping[Any, Any], parameters: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        """See `StoredRows`. In an instance of its own: a statement that fails would end the
        transaction of the run, and other tables are none of the user's."""
        key, value = self.store.keys[0], self.store.value
        text = (
            f"SELECT key, {VALUE} FROM {quoted(self.store.table)}"
            f" WHERE {quoted(PART)} = {self.part}"
        )
        stored: pa.Table = self.session.connection.sql(text).to_arrow_table()
        new = [(one, other) for one, other in changed.items() if other is not None]
        tables = {
            "stored": stored,
            "gone": pa.table({"key": column_of(changed, key)}),
            "new": pa.table(
                {
                    "key": column_of((one for one, _ in new), key),
                    VALUE: column_of((other for _, other in new), value),
                }
            ),
        }
        with closing(duckdb.connect()) as connection:
            connection.execute(_ISOLATED)
            for name, table in tables.items():
                connection.register(name, table)
            try:
                relation = connection.sql(f"{_STORE} SELECT * FROM ({query})", params=parameters)
                found = relation.to_arrow_table()
            except duckdb.Error as error:
                raise ValueError(str(error)) from None
        columns = [values_of(column) for column in found.columns]
        return list(zip(*columns, strict=True))


def _key_parts(key: Any, store: StoreTable) -> tuple[Any, ...]:
    return (key,) if len(store.keys) == 1 else key


def key_columns(keys: Sequence[Any], store: StoreTable) -> list[pa.Array]:
    """The columns of keys."""
    if len(store.keys) == 1:
        return [column_of(keys, store.keys[0])]
    return [column_of([key[n] for key in keys], kind) for n, kind in enumerate(store.keys)]


def _keys_of(table: pa.Table, store: StoreTable) -> list[Any]:
    parts = [values_of(table[column]) for column in store.key_columns]
    return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))


def _pairs(table: pa.Table, store: StoreTable) -> Iterator[tuple[Any, Any]]:
    return zip(_keys_of(table, store), values_of(table[VALUE]), strict=True)

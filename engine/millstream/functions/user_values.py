"""Adapts user functions from physical columns to plain Python values: lists and dicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from millstream.functions.attempts import RowFunction
from millstream.model.physical import arrow_type, physical_names
from millstream.model.types import Array, Map, SqlType, Struct


def by_row(
    function: Callable[..., Any], parameters: int, result: SqlType
) -> Callable[..., pa.Array]:
    """An Arrow function that calls a Python one for each row."""

    def compute(*row: Any) -> Any:
        # Even without parameters there is one column, which has the number of rows.
        return kept_by_arrow(function(*row) if parameters else function(), result)

    def array(results: list[Any], _: Sequence[Any]) -> pa.Array:
        return pa.array(results, arrow_type(result))

    return RowFunction(lambda rows: compute, array, given=_values, nulls=True, once=False)


def by_batch(
    function: Callable[..., Any], parameters: int, result: SqlType
) -> Callable[..., pa.Array]:
    """An Arrow function whose result is checked: one value of the type for each row."""

    def run(*columns: Any) -> pa.Array:
        rows = len(columns[0])
        made = function(*columns) if parameters else function(rows)
        if isinstance(made, pa.ChunkedArray):
            made = made.combine_chunks()
        if len(made) != rows:
            raise ValueError(f"the function returned {len(made)} values for {rows} rows")
        return made.cast(arrow_type(result))

    return run


def _values(column: Any) -> list[Any]:
    return [seen_by_user(value, column.type) for value in column.to_pylist()]


def seen_by_user(value: Any, kind: Any) -> Any:
    """A value of an Arrow type as user functions get it."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_map(kind):
        return {seen_by_user(k, kind.key_type): seen_by_user(v, kind.item_type) for k, v in value}
    if pa.types.is_struct(kind):
        fields = (kind.field(place) for place in range(kind.num_fields))
        return {field.name: seen_by_user(value[field.name], field.type) for field in fields}
    return [seen_by_user(item, kind.value_type) for item in value]


def kept_by_arrow(value: Any, kind: SqlType) -> Any:
    """A user's value as Arrow accepts it."""
    if value is None:
        return None
    match kind:
        case Array(element):
            return [kept_by_arrow(item, element) for item in value]
        case Map(key, item):
            return [(kept_by_arrow(k, key), kept_by_arrow(v, item)) for k, v in value.items()]
        case Struct(fields):
            names = physical_names(field.name for field in fields)
            pairs = zip(names, fields, strict=True)
            return {name: kept_by_arrow(value.get(field.name), field.type) for name, field in pairs}
    return value

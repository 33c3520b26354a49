"""Arrow columns as Python values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from millstream.model.iso_times import iso_date, iso_timestamp

Column: TypeAlias = pa.Array | pa.ChunkedArray


def tuples(table: pa.Table | pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The rows."""
    return zip(*map(python_values, table.columns), strict=True)


def python_values(column: Column) -> list[Any]:
    """As `to_pylist`, but a column with dates or times that Python has no value for (before the
    year 1, after 9999) has ISO text for each of these."""
    try:
        return list(column.to_pylist())
    except OverflowError:
        values = counted(column).to_pylist()
        return [_restored(value, column.type) for value in values]


def counted(column: Column) -> Column:
    """A column with its dates as days and its times as microseconds since 1970, within lists, maps
    and structs too."""
    kind = _counted(column.type)
    return column if kind == column.type else pc.cast(column, kind)


def _counted(kind: pa.DataType) -> pa.DataType:
    if kinds.is_timestamp(kind):
        return pa.int64()
    if kinds.is_date32(kind):
        return pa.int32()
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(_counted(field.type)) for field in kind])
    if kinds.is_map(kind):
        return pa.map_(_counted(kind.key_type), _counted(kind.item_type))
    if kinds.is_list(kind):
        return pa.list_(kind.value_field.with_type(_counted(kind.value_type)))
    return kind


def _restored(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if kinds.is_timestamp(kind) or kinds.is_date32(kind):
        try:
            return pa.scalar(value, kind).as_py()
        except OverflowError:
            return iso_timestamp(value) if kinds.is_timestamp(kind) else iso_date(value)
    if kinds.is_struct(kind):
        return {field.name: _restored(value[field.name], field.type) for field in kind}
    if kinds.is_map(kind):
        pairs = ((_restored(k, kind.key_type), _restored(v, kind.item_type)) for k, v in value)
        return list(pairs)
    if kinds.is_list(kind):
        return [_restored(item, kind.value_type) for item in value]
    return value

"""The SQL types of values that have none: of the columns of an Arrow table."""

from __future__ import annotations

import pyarrow as pa

from millstream.model import types as t
from millstream.model.schema import Column, Schema
from millstream.model.types import SqlType

_PRIMITIVE = (
    (pa.types.is_boolean, t.BOOLEAN),
    (pa.types.is_int64, t.BIGINT),
    (pa.types.is_integer, t.INTEGER),
    (pa.types.is_floating, t.DOUBLE),
    (pa.types.is_date, t.DATE),
    (pa.types.is_time, t.TIME),
    (pa.types.is_timestamp, t.TIMESTAMP),
    (pa.types.is_binary, t.BYTES),
    (pa.types.is_large_binary, t.BYTES),
)


def schema_of(table: pa.Table) -> Schema:
    """The SQL types of an Arrow table whose query has none."""
    return Schema(tuple(Column(field.name, sql_type_of(field.type)) for field in table.schema))


def sql_type_of(kind: pa.DataType) -> SqlType:
    """The SQL type for showing values of an Arrow type."""
    if pa.types.is_decimal(kind):
        return t.Decimal(kind.precision, kind.scale)
    if pa.types.is_map(kind):
        return t.Map(sql_type_of(kind.key_type), sql_type_of(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return t.Array(sql_type_of(kind.value_type))
    if pa.types.is_struct(kind):
        fields = (kind.field(index) for index in range(kind.num_fields))
        return t.Struct(tuple(t.Field(field.name, sql_type_of(field.type)) for field in fields))
    return next((found for test, found in _PRIMITIVE if test(kind)), t.STRING)

"""The representation of types and names in DuckDB and Arrow.

DuckDB and its structs compare names without case, the dialect with case, and `$` starts our own
columns: only `physical_names` makes them distinct.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from millstream.model.types import Array, Decimal, Map, Primitive, SqlType, Struct

_ARROW = {
    Primitive.BOOLEAN: pa.bool_(),
    Primitive.INTEGER: pa.int32(),
    Primitive.BIGINT: pa.int64(),
    Primitive.DOUBLE: pa.float64(),
    Primitive.STRING: pa.string(),
    Primitive.BYTES: pa.binary(),
    Primitive.DATE: pa.date32(),
    Primitive.TIME: pa.time64("us"),
    Primitive.TIMESTAMP: pa.timestamp("us"),
    Primitive.NULL: pa.null(),
}
_DUCKDB = {
    Primitive.STRING: "VARCHAR",
    Primitive.BYTES: "BLOB",
    Primitive.NULL: "INTEGER",
}
MAX_DECIMAL_PRECISION = 38


def physical_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names that stay distinct in DuckDB, in the order of the logical ones.

    Almost always the names themselves. A name that starts with `$`, or that equals an earlier one
    except for case, gets a suffix.
    """
    taken: set[str] = set()
    result = []
    for name in names:
        candidate = f"_{name}" if name.startswith("$") or not name else name
        while candidate.casefold() in taken:
            candidate += "_"
        taken.add(candidate.casefold())
        result.append(candidate)
    return tuple(result)


def physical_name(name: str, among: Sequence[str]) -> str:
    """The physical name of one of several columns."""
    return physical_names(among)[list(among).index(name)]


def arrow_type(sql_type: SqlType) -> pa.DataType:
    """The Arrow type of a column. TIME and TIMESTAMP are in microseconds, as in DuckDB."""
    match sql_type:
        case Primitive():
            return _ARROW[sql_type]
        case Decimal(precision, scale):
            return pa.decimal128(*physical_digits(precision, scale))
        case Array(element):
            return pa.list_(arrow_type(element))
        case Map(key, value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case Struct(fields):
            names = physical_names(field.name for field in fields)
            return pa.struct(
                [pa.field(name, arrow_type(f.type)) for name, f in zip(names, fields, strict=True)]
            )
    raise TypeError(f"no Arrow type for {sql_type}")


def physical_digits(precision: int, scale: int) -> tuple[int, int]:
    """Precision and scale within the limit of 38 digits: digits before the point are dropped first
    while the scale fits, else digits after it."""
    if scale > MAX_DECIMAL_PRECISION:
        scale = max(0, MAX_DECIMAL_PRECISION - (precision - scale))
    return min(precision, MAX_DECIMAL_PRECISION), scale


def duckdb_type(sql_type: SqlType) -> str:
    """The DuckDB type of a column, as SQL text."""
    match sql_type:
        case Primitive():
            return _DUCKDB.get(sql_type, sql_type.value)
        case Decimal(precision, scale):
            width, kept = physical_digits(precision, scale)
            return f"DECIMAL({width}, {kept})"
        case Array(element):
            return f"{duckdb_type(element)}[]"
        case Map(key, value):
            return f"MAP({duckdb_type(key)}, {duckdb_type(value)})"
        case Struct(fields):
            names = physical_names(field.name for field in fields)
            members = (
                f'"{name.replace(chr(34), chr(34) * 2)}" {duckdb_type(f.type)}'
                for name, f in zip(names, fields, strict=True)
            )
            return f"STRUCT({', '.join(members)})" if fields else "STRUCT"
    raise TypeError(f"no DuckDB type for {sql_type}")

"""Writes JSON: compiled code or one SQL expression joins the records of a whole batch."""

from __future__ import annotations

import json

import duckdb
import pyarrow as pa

from millstream.formats.java_text import double_text
from millstream.formats.json_few import FEW_ROWS, write_few
from millstream.formats.json_join import is_joined_as_it_is, join
from millstream.formats.library import compiled_formats
from millstream.formats.payload import Bytes, Layout, one_array
from millstream.model.java_number import decimal_text
from millstream.model.physical import physical_names
from millstream.model.types import Array, Decimal, Map, Primitive, SqlType, Struct


def write_json(con: duckdb.DuckDBPyConnection, columns: list[pa.Array], layout: Layout) -> Bytes:
    """The records as compact JSON: names as stored, NULL fields as `null`.

    A single column that is not wrapped is the whole text, and NULL is a NULL payload.
    """
    if len(columns[0]) <= FEW_ROWS:
        few = write_few(columns, layout)
        if few is not None:
            return few
    return write_many(con, columns, layout)


def write_many(con: duckdb.DuckDBPyConnection, columns: list[pa.Array], layout: Layout) -> Bytes:
    """`write_json` of whole columns, for any number of records."""
    library = compiled_formats()
    if layout.wrapped and library is not None:
        names = [column.name for column in layout.columns]
        types = [column.type for column in layout.columns]
        joined = join(library, names, types, _as_json(con, columns, types))
        if joined is not None:
            return joined
    return write_by_sql(con, columns, layout)


def _as_json(
    con: duckdb.DuckDBPyConnection, columns: list[pa.Array], types: list[SqlType]
) -> list[pa.Array]:
    """The columns; those that compiled code cannot convert are given as JSON text."""
    others = {
        f"c{index}": sql_type
        for index, sql_type in enumerate(types)
        if not is_joined_as_it_is(sql_type)
    }
    if not others:
        return columns
    rows = pa.table(columns, names=[f"c{index}" for index in range(len(columns))]).select([*others])
    texts = ", ".join(f"{json_sql(name, sql_type)} AS {name}" for name, sql_type in others.items())
    written = con.from_arrow(rows).project(texts).to_arrow_table()
    return [
        one_array(written[f"c{index}"]) if f"c{index}" in others else array
        for index, array in enumerate(columns)
    ]


def write_by_sql(con: duckdb.DuckDBPyConnection, columns: list[pa.Array], layout: Layout) -> Bytes:
    """`write_json` by one expression."""
    names = [f"c{index}" for index in range(len(columns))]
    rows = pa.table(columns, names=names)
    types = [column.type for column in layout.columns]
    if layout.wrapped:
        fields = zip((column.name for column in layout.columns), names, types, strict=True)
        text = _object([(name, sql, sql_type) for name, sql, sql_type in fields], 0)
    else:
        text = json_sql(names[0], types[0])
    written = con.from_arrow(rows).project(f"{text} AS j").to_arrow_table()
    return one_array(written["j"]).cast(pa.binary())


def json_sql(value: str, sql_type: SqlType, depth: int = 0) -> str:
    """SQL for the JSON text of a value given as SQL; NULL where the value is."""
    match sql_type:
        case Array(element):
            item = f"v{depth}"
            items = f"lambda {item}: coalesce({json_sql(item, element, depth + 1)}, 'null')"
            return f"'[' || array_to_string(list_transform({value}, {items}), ',') || ']'"
        case Map(_, member):
            item = f"v{depth}"
            entry = (
                f"lambda {item}: coalesce(to_json({item}.key::VARCHAR)::VARCHAR, '\"null\"')"
                f" || ':' || coalesce({json_sql(f'{item}.value', member, depth + 1)}, 'null')"
            )
            entries = f"list_transform(map_entries({value}), {entry})"
            return f"'{{' || array_to_string({entries}, ',') || '}}'"
        case Struct(members):
            inner = physical_names(member.name for member in members)
            fields = [
                (member.name, f"struct_extract({value}, {_literal(name)})", member.type)
                for name, member in zip(inner, members, strict=True)
            ]
            return f"CASE WHEN {value} IS NOT NULL THEN {_object(fields, depth)} END"
    return _scalar(value, sql_type)


def _scalar(value: str, sql_type: SqlType) -> str:
    match sql_type:
        case Primitive.STRING:
            return f"to_json({value})::VARCHAR"
        case Primitive.BYTES:
            return f"'\"' || base64({value}) || '\"'"
        case Primitive.DOUBLE:
            return (
                f"CASE WHEN isfinite({value}) THEN {double_text(value)}"
                f" WHEN isnan({value}) THEN '\"NaN\"' WHEN {value} > 0 THEN '\"Infinity\"'"
                f" WHEN {value} < 0 THEN '\"-Infinity\"' END"
            )
        case Decimal(precision, scale) if precision == scale:
            return decimal_text(f"{value}::VARCHAR")
        case Primitive.BOOLEAN | Primitive.INTEGER | Primitive.BIGINT | Decimal():
            return f"{value}::VARCHAR"
    return f"{temporal_sql(value, sql_type)}::VARCHAR"


def temporal_sql(value: str, sql_type: SqlType) -> str:
    """SQL for the number that stands for a DATE (days), TIME or TIMESTAMP (ms)."""
    if sql_type is Primitive.DATE:
        return f"({value} - DATE '1970-01-01')"
    return f"epoch_ms({value})"


def _object(fields: list[tuple[str, str, SqlType]], depth: int) -> str:
    if not fields:
        return "'{}'"
    parts = []
    for index, (name, value, sql_type) in enumerate(fields):
        lead = ("{" if index == 0 else ",") + json.dumps(name, ensure_ascii=False) + ":"
        parts.append(f"{_literal(lead)}, coalesce({json_sql(value, sql_type, depth)}, 'null')")
    return f"concat({', '.join(parts)}, '}}')"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

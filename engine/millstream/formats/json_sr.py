"""JSON_SR: JSON behind the ids of its schemas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.json import read_json
from millstream.formats.json_rows import parse_json, read_record
from millstream.formats.json_schema import json_type
from millstream.formats.json_text import write_json
from millstream.formats.payload import Bytes, Layout, Read, Written, read_one_by_one
from millstream.formats.registered import prefix_of, unframed
from millstream.formats.registered_rows import NO_PREFIX, Schema, without_prefix
from millstream.formats.schema_error import SchemaError
from millstream.model.physical import arrow_type
from millstream.model.schema import Column
from millstream.model.types import Array, Map, SqlType, Struct


def read_json_sr(con: duckdb.DuckDBPyConnection, payload: Bytes, layout: Layout) -> Read:
    """Read the wanted columns of each payload. Its JSON says all that is needed, so its schema is
    not asked for."""
    texts = unframed(payload)
    if any(_has_map(column.type) for column in layout.columns):
        read = _read_entries(texts, layout)
    else:
        read = read_json(con, texts, layout)
    return replace(read, bad={**read.bad, **dict.fromkeys(without_prefix(payload), NO_PREFIX)})


def write_json_sr(
    con: duckdb.DuckDBPyConnection,
    columns: list[pa.Array],
    layout: Layout,
    schema: tuple[int, Schema],
) -> Written:
    """Write each row: all that the schema has, and NULL for what no column has. Raises SchemaError
    if it does not have a column."""
    schema_id, given = schema
    if layout.wrapped:
        columns, layout = _as_the_schema(columns, layout, json_type(given))
    texts = write_json(con, columns, layout)
    prefix = pa.scalar(prefix_of(schema_id), pa.binary())
    return Written(pc.binary_join_element_wise(prefix, texts, pa.scalar(b"", pa.binary())))


def _as_the_schema(
    columns: list[pa.Array], layout: Layout, kind: SqlType | None
) -> tuple[list[pa.Array], Layout]:
    if not isinstance(kind, Struct):
        raise SchemaError("the schema is no object with properties")
    names = [column.name for column in layout.columns]
    missing = next((name for name in names if kind.field(name) is None), None)
    if missing is not None:
        raise SchemaError(f"the schema has no property {missing}")
    if names == [field.name for field in kind.fields]:
        return columns, layout
    rows = len(columns[0])
    by_name = dict(zip(names, zip(columns, layout.columns, strict=True), strict=True))
    found = [
        by_name[field.name]
        if field.name in by_name
        else (pa.nulls(rows, arrow_type(field.type)), Column(field.name, field.type))
        for field in kind.fields
    ]
    own = tuple(column for _, column in found)
    return [array for array, _ in found], replace(layout, columns=own)


def _has_map(kind: SqlType) -> bool:
    match kind:
        case Map():
            return True
        case Array(element):
            return _has_map(element)
        case Struct(fields):
            return any(_has_map(field.type) for field in fields)
        case _:
            return False


def _read_entries(texts: Bytes, layout: Layout) -> Read:
    """Read records whose maps may be lists of their entries, as Kafka Connect writes them."""

    def values(payload: bytes) -> list[Any] | None:
        record = parse_json(payload)
        if record is None:
            return None
        if layout.wrapped and isinstance(record, dict):
            kinds = {column.name.upper(): column.type for column in layout.columns}
            record = {
                name: _without_entries(each, kinds.get(name.upper()))
                for name, each in record.items()
            }
        elif not layout.wrapped:
            record = _without_entries(record, layout.columns[0].type)
        return read_record(record, layout.columns, layout.wrapped)

    return read_one_by_one(texts.to_pylist(), layout, values)


def _without_entries(value: Any, kind: SqlType | None) -> Any:
    """The value with its lists of entries as objects."""
    match kind, value:
        case Map(_, member), list() if all(_is_entry(each) for each in value):
            return {each["key"]: _without_entries(each.get("value"), member) for each in value}
        case Map(_, member), dict():
            return {key: _without_entries(each, member) for key, each in value.items()}
        case Array(element), list():
            return [_without_entries(each, element) for each in value]
        case Struct(fields), dict():
            kinds = {field.name.upper(): field.type for field in fields}
            return {
                name: _without_entries(each, kinds.get(name.upper()))
                for name, each in value.items()
            }
        case _:
            return value


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("key"), str)

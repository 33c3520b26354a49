"""JSON_SR: JSON behind the ids of its schemas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.conversion import converted, field_of, place_of
from millstream.formats.json import read_json
from millstream.formats.json_rows import parse_json, read_record
from millstream.formats.json_schema import json_type
from millstream.formats.json_text import write_json
from millstream.formats.payload import Bytes, Layout, Read, Written, read_one_by_one
from millstream.formats.registered import framed, prefix_of
from millstream.formats.registered_rows import ResolvedSchema
from millstream.formats.schema_error import SchemaError
from millstream.model.physical import arrow_type, physical_names
from millstream.model.python_values import counted
from millstream.model.schema import Column
from millstream.model.types import Array, Map, SqlType, Struct


def read_json_sr(con: duckdb.DuckDBPyConnection, payload: Bytes, layout: Layout) -> Read:
    """Read the wanted columns of each payload. Its JSON says all that is needed, so its schema is
    not asked for."""
    given = framed(payload)
    texts = given.contents()
    read = read_json(con, texts, layout)
    if read.bad and any(_has_map(column.type) for column in layout.columns):
        read = _with_entries(read, texts, layout)
    return replace(read, bad={**read.bad, **given.bad})


def write_json_sr(
    con: duckdb.DuckDBPyConnection,
    columns: list[pa.Array],
    layout: Layout,
    schema: tuple[int, ResolvedSchema],
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
    """The columns as the properties of a schema, with their names and in their order."""
    if not isinstance(kind, Struct):
        raise SchemaError("the schema is no object with properties")
    names = [column.name for column in layout.columns]
    missing = next((name for name in names if field_of(kind, name) is None), None)
    if missing is not None:
        raise SchemaError(f"the schema has no property {missing}")
    rows, made = len(columns[0]), []
    for field in kind.fields:
        place = place_of(field.name, names)
        if place is None:
            made.append(pa.nulls(rows, arrow_type(field.type)))
        else:
            made.append(_as_property(columns[place], layout.columns[place], field.type))
    own = tuple(Column(field.name, field.type) for field in kind.fields)
    return made, replace(layout, columns=own)


def _as_property(array: pa.Array, column: Column, wanted: SqlType) -> pa.Array:
    """A column with the names that a schema has within it."""
    if column.type == wanted:
        return array
    if not _same_but_names(column.type, wanted):
        raise SchemaError(f"{column.name} is {column.type}, and the schema has {wanted} there")
    convert = converted(column.type, wanted)
    assert convert is not None
    values = counted(array).to_pylist()
    return pa.array(
        [None if each is None else convert(each) for each in values], arrow_type(wanted)
    )


def _same_but_names(kind: SqlType, wanted: SqlType) -> bool:
    """Whether a schema has a type with other names of fields, or more of them."""
    match kind, wanted:
        case Array(one), Array(other):
            return _same_but_names(one, other)
        case Map(key, one), Map(other_key, other):
            return key == other_key and _same_but_names(one, other)
        case Struct(fields), Struct():
            names = [field.name for field in fields]
            found = [field_of(wanted, name) for name in names]
            # A name that DuckDB would not tell from another one has another one there.
            return list(physical_names(names)) == names and all(
                other is not None and _same_but_names(field.type, other.type)
                for field, other in zip(fields, found, strict=True)
            )
        case _:
            return kind == wanted


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


def _with_entries(read: Read, texts: Bytes, layout: Layout) -> Read:
    """What was read, with the bad records read again as such whose maps are lists of entries, which
    are no JSON of a map."""
    rows = np.array(sorted(read.bad), np.int64)
    again = _read_entries(texts.take(pa.array(rows)), layout)
    order = np.arange(len(texts))
    order[rows] = len(texts) + np.arange(len(rows))
    columns = tuple(
        pa.concat_arrays(pair).take(pa.array(order))
        for pair in zip(read.columns, again.columns, strict=True)
    )
    return Read(columns, {int(rows[row]): why for row, why in again.bad.items()}, read.absent)


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

"""JSON_SR: JSON behind the ids of its schemas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.conversion import converted, field_of, place_of
from millstream.formats.json import read_json
from millstream.formats.json_choice import chosen
from millstream.formats.json_rows import parse_json, read_record
from millstream.formats.json_schema import is_choice, json_type
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
    kinds = [column.type for column in layout.columns]
    if any(map(_has_choice, kinds)):
        read = _read_forms(texts, layout)
    else:
        read = read_json(con, texts, layout)
        if read.bad and any(map(_has_map, kinds)):
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
    return any(isinstance(each, Map) for each in _within(kind))


def _has_choice(kind: SqlType) -> bool:
    return any(isinstance(each, Struct) and is_choice(each) for each in _within(kind))


def _within(kind: SqlType) -> Iterator[SqlType]:
    """A type and those in it."""
    yield kind
    match kind:
        case Array(element):
            yield from _within(element)
        case Map(_, member):
            yield from _within(member)
        case Struct(fields):
            for field in fields:
                yield from _within(field.type)


def _with_entries(read: Read, texts: Bytes, layout: Layout) -> Read:
    """What was read, with the bad records read again as such whose maps are lists of entries, which
    are no JSON of a map."""
    rows = np.array(sorted(read.bad), np.int64)
    again = _read_forms(texts.take(pa.array(rows)), layout)
    order = np.arange(len(texts))
    order[rows] = len(texts) + np.arange(len(rows))
    columns = tuple(
        pa.concat_arrays(pair).take(pa.array(order))
        for pair in zip(read.columns, again.columns, strict=True)
    )
    return Read(columns, {int(rows[row]): why for row, why in again.bad.items()}, read.absent)


def _read_forms(texts: Bytes, layout: Layout) -> Read:
    """Read records in the forms that Kafka Connect writes besides: maps as lists of their entries,
    and of several types the one that the value has."""

    def values(payload: bytes) -> list[Any] | None:
        record = parse_json(payload)
        if record is None:
            return None
        if layout.wrapped and isinstance(record, dict):
            kinds = {column.name.upper(): column.type for column in layout.columns}
            record = {
                name: _in_form(each, kinds.get(name.upper())) for name, each in record.items()
            }
        elif not layout.wrapped:
            record = _in_form(record, layout.columns[0].type)
        return read_record(record, layout.columns, layout.wrapped)

    return read_one_by_one(texts.to_pylist(), layout, values)


def _in_form(value: Any, kind: SqlType | None) -> Any:
    """The value with its lists of entries as objects, and values of several types as members of
    their structs."""
    match kind, value:
        case _, None:
            return None
        case Struct(), _ if is_choice(kind):
            member = chosen(value, kind)
            return {member.name: _in_form(value, member.type)}
        case Map(_, member), list() if all(_is_entry(each) for each in value):
            return {each["key"]: _in_form(each.get("value"), member) for each in value}
        case Map(_, member), dict():
            return {key: _in_form(each, member) for key, each in value.items()}
        case Array(element), list():
            return [_in_form(each, element) for each in value]
        case Struct(fields), dict():
            kinds = {field.name.upper(): field.type for field in fields}
            return {name: _in_form(each, kinds.get(name.upper())) for name, each in value.items()}
        case _:
            return value


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("key"), str)

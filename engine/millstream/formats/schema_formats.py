"""The formats that have their schemas in a registry, by name: one entry for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import duckdb
import pyarrow as pa

from millstream.catalog.formats import NULLS, SCHEMA_ID, SCHEMA_NAME
from millstream.formats import avro, protobuf
from millstream.formats.avro_read_columns import compiled_reader
from millstream.formats.avro_types import VALUE_NAME, avro_text, key_name
from millstream.formats.avro_write_columns import compiled_writer
from millstream.formats.json_schema import json_text, json_type
from millstream.formats.json_sr import read_json_sr, write_json_sr
from millstream.formats.payload import Bytes, Layout, Read, Subject, Written
from millstream.formats.proto_types import DEFAULT_NAME
from millstream.formats.registered_rows import (
    Columns,
    ResolvedSchema,
    columns_of,
    read_by_schema,
    subject_in,
    with_imports,
    write_by_schema,
)
from millstream.formats.schema_error import SchemaError
from millstream.model import refusals
from millstream.model.schema_text import SchemaText
from millstream.model.types import SqlType

Properties: TypeAlias = Mapping[str, str]

Write = Callable[
    [duckdb.DuckDBPyConnection, list[pa.Array], Layout, tuple[int, ResolvedSchema]], Written
]
ReadRows = Callable[[Bytes, Layout], Read]


@dataclass(frozen=True, slots=True)
class SchemaFormat:
    """What a format does with schemas. `kind`: as the registry calls it; `described`: in messages.

    `text`: the schema of columns, with a name, wrapped or not; raises SchemaError for columns or
    names that it cannot have. `name`: that of the record, by the name of the source and whether it
    is a key. `type_of`: the type that a schema describes, None if no column can have it; raises
    SchemaError. `read` and `write`: one side of records; `write` with the id and the schema, and
    raises SchemaError for one that does not fit the columns.
    """

    kind: str
    described: str
    text: Callable[[Columns, str, bool, Properties], str]
    name: Callable[[str, bool], str]
    type_of: Callable[[ResolvedSchema], SqlType | None]
    read: Callable[[duckdb.DuckDBPyConnection, Bytes, Layout], Read]
    write: Write
    read_rows: ReadRows | None = None
    """As `read`, for formats that are read one by one; those of the others are texts."""


def _read_avro(payload: Bytes, layout: Layout) -> Read:
    return read_by_schema(payload, layout, "AVRO", avro.read_values, compiled_reader)


def _read_protobuf(payload: Bytes, layout: Layout) -> Read:
    return read_by_schema(payload, layout, "PROTOBUF", protobuf.read_values, protobuf.read_columns)


def _avro_name(source: str, is_key: bool) -> str:
    return key_name(source) if is_key else VALUE_NAME


SCHEMA_FORMATS: Mapping[str, SchemaFormat] = {
    "AVRO": SchemaFormat(
        "AVRO",
        "Avro",
        lambda columns, name, wrapped, _: avro_text(columns, name, wrapped=wrapped),
        _avro_name,
        avro.avro_type,
        lambda _, payload, layout: _read_avro(payload, layout),
        lambda _, columns, layout, schema: write_by_schema(
            columns, layout, schema, avro.write_values, compiled_writer
        ),
        _read_avro,
    ),
    "JSON_SR": SchemaFormat(
        "JSON",
        "JSON Schema",
        lambda columns, _, wrapped, __: json_text(columns, wrapped=wrapped),
        lambda _, __: "",
        json_type,
        read_json_sr,
        write_json_sr,
    ),
    "PROTOBUF": SchemaFormat(
        "PROTOBUF",
        "Protobuf",
        lambda columns, name, _, properties: protobuf.protobuf_text(
            columns, name, properties.get(NULLS, "")
        ),
        lambda _, __: DEFAULT_NAME,
        protobuf.protobuf_type,
        lambda _, payload, layout: _read_protobuf(payload, layout),
        lambda _, columns, layout, schema: write_by_schema(
            columns, layout, schema, protobuf.write_values, protobuf.write_columns
        ),
        _read_protobuf,
    ),
}


def schema_text(
    name: str,
    columns: Columns,
    source: str,
    properties: Properties,
    *,
    is_key: bool,
    wrapped: bool,
) -> SchemaText:
    """The schema of the keys or values of a stream or table. Raises StatementError for columns that
    the format cannot have."""
    form = SCHEMA_FORMATS[name]
    called = properties.get(SCHEMA_NAME) or form.name(source, is_key)
    try:
        return SchemaText(form.kind, form.text(columns, called, wrapped, properties))
    except SchemaError as error:
        raise refusals.SCHEMA_NOT_OF_FORMAT(format=form.described, reason=error) from error


def write_registered(
    con: duckdb.DuckDBPyConnection, columns: list[pa.Array], layout: Layout, name: str
) -> Written:
    """Write one side of the records in a format of the registry. Raises StatementError for columns
    that the schema cannot have."""
    schema = _written(name, layout, subject_in(layout))
    try:
        return SCHEMA_FORMATS[name].write(con, columns, layout, schema)
    except SchemaError as error:
        raise refusals.SCHEMA_NOT_OF_COLUMNS(id=schema[0], reason=error) from error


def _written(name: str, layout: Layout, subject: Subject) -> tuple[int, ResolvedSchema]:
    """The id of the schema that is written, and the schema."""
    schemas, chosen = subject.schemas, layout.properties.get(SCHEMA_NAME, "")
    given = layout.properties.get(SCHEMA_ID)
    if given is not None:
        return int(given), with_imports(schemas, schemas.by_id(int(given)), chosen)
    latest = schemas.latest(subject.name) if subject.inserting else None
    if latest is not None and latest.schema.kind == SCHEMA_FORMATS[name].kind:
        return latest.id, with_imports(schemas, latest.schema, chosen)
    properties = tuple(layout.properties.items())
    made = (name, columns_of(layout), subject.source, properties, subject.is_key, layout.wrapped)
    text = _text_once(*made)
    return schemas.id_of(subject.name, text), with_imports(schemas, text, chosen)


@lru_cache(maxsize=1_000)
def _text_once(
    name: str,
    columns: Columns,
    source: str,
    properties: tuple[tuple[str, str], ...],
    is_key: bool,
    wrapped: bool,
) -> SchemaText:
    """`schema_text`, which is asked for with each batch."""
    return schema_text(name, columns, source, dict(properties), is_key=is_key, wrapped=wrapped)

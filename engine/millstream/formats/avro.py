"""AVRO: payloads in Avro's binary encoding, behind the ids of their schemas."""

from __future__ import annotations

from functools import lru_cache

from millstream.formats.avro_read import avro_reader
from millstream.formats.avro_schema import AvroType, parse_avro
from millstream.formats.avro_types import sql_type_of
from millstream.formats.avro_write import avro_writer
from millstream.formats.conversion import columns_from
from millstream.formats.registered import PREFIX
from millstream.formats.registered_rows import Columns, ReadValues, ResolvedSchema, WriteValues
from millstream.formats.schema_error import SchemaError
from millstream.model.errors import RecordError
from millstream.model.types import SqlType


def avro_type(schema: ResolvedSchema) -> SqlType | None:
    """The type of what a schema describes; None if no column can have it. Raises SchemaError."""
    return sql_type_of(_parsed(schema))


def read_values(schema: ResolvedSchema, columns: Columns, wrapped: bool) -> ReadValues:
    """See `MakeReader`."""
    try:
        parsed = _parsed(schema)
    except SchemaError as error:
        raise RecordError(f"its Avro schema cannot be used: {error}") from error
    given = sql_type_of(parsed)
    if given is None:
        raise RecordError("its Avro schema has nothing that a column can have")
    read, convert = avro_reader(parsed), columns_from(given, columns, wrapped=wrapped)
    return lambda content: convert(read(content, PREFIX))


def write_values(schema: ResolvedSchema, columns: Columns, wrapped: bool) -> WriteValues:
    """See `MakeWriter`."""
    return avro_writer(_parsed(schema), columns, wrapped=wrapped)


@lru_cache(maxsize=1_000)
def _parsed(schema: ResolvedSchema) -> AvroType:
    return parse_avro(schema.text, dict(schema.imported))

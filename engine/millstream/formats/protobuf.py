"""PROTOBUF: messages behind the ids of their schemas, and PROTOBUF_NOSR: messages whose fields are
numbered in the order of the columns, without a registry.

Scalars are proto3 scalars: NULL is written as their zero value and an absent one is read as the
zero value, unless the property `nullableRepresentation` is OPTIONAL (absent means NULL) or WRAPPER
(scalars are in messages of their own). DECIMAL, DATE, TIME and TIMESTAMP are the messages
confluent.type.Decimal, google.type.Date, google.type.TimeOfDay and google.protobuf.Timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.catalog.formats import NULLS
from millstream.formats.conversion import columns_from
from millstream.formats.library import compiled_formats
from millstream.formats.payload import (
    Bytes,
    Layout,
    Read,
    Written,
    nothing_read,
)
from millstream.formats.proto_read import message_reader
from millstream.formats.proto_read_columns import compiled_reader
from millstream.formats.proto_schema import ProtoFile, parse_proto
from millstream.formats.proto_types import (
    DEFAULT_NAME,
    Message,
    message_of,
    proto_text,
    sql_type_of,
)
from millstream.formats.proto_write import message_writer
from millstream.formats.proto_write_columns import compiled_writer
from millstream.formats.registered import PREFIX
from millstream.formats.registered_rows import (
    Columns,
    ReadColumns,
    ReadValues,
    ResolvedSchema,
    WriteColumns,
    WriteValues,
    columns_of,
    read_mostly_by_columns,
    write_mostly_by_columns,
)
from millstream.formats.schema_error import SchemaError
from millstream.formats.zigzag import put_long, read_long
from millstream.model.errors import RecordError
from millstream.model.types import SqlType

INDEXES_MAX = 100
"""The longest path to a message."""


def read_protobuf(payload: Bytes, layout: Layout) -> Read:
    """Read the wanted columns of each message of PROTOBUF_NOSR."""
    if not layout.columns:
        return nothing_read(layout, len(payload))
    columns, nulls = columns_of(layout), layout.properties.get(NULLS, "")

    def values(content: bytes) -> Sequence[Any]:
        return _reader(_of_columns(columns, nulls), columns)(content)

    by_columns = _column_reader(columns, nulls, layout.wanted)
    return read_mostly_by_columns(payload, layout, by_columns, values)


@lru_cache(maxsize=1_000)
def _column_reader(columns: Columns, nulls: str, wanted: tuple[int, ...]) -> ReadColumns | None:
    try:
        message = _of_columns(columns, nulls)
    except RecordError:
        return None
    return compiled_reader(message, columns, wanted, 0, b"")


def write_protobuf(columns: list[pa.Array], layout: Layout) -> Written:
    """Write each row as a message of PROTOBUF_NOSR; NULL inside an array or map cannot be
    written."""
    nulls = layout.properties.get(NULLS, "")
    try:
        message = _of_columns(columns_of(layout), nulls)
    except RecordError as error:
        count = len(columns[0])
        return Written(pa.nulls(count, pa.binary()), dict.fromkeys(range(count), error.message))
    write = message_writer(message, columns_of(layout))

    def append(values: Sequence[Any], out: bytearray) -> None:
        out += write(values)

    by_columns = compiled_writer(message, columns_of(layout), b"")
    return write_mostly_by_columns(columns, layout, b"", by_columns, append)


@lru_cache(maxsize=1_000)
def _of_columns(columns: Columns, nulls: str) -> Message:
    try:
        return message_of(columns, DEFAULT_NAME, {NULLS: nulls})
    except SchemaError as error:
        raise RecordError(str(error)) from error


@lru_cache(maxsize=1_000)
def _reader(message: Message, columns: Columns) -> ReadValues:
    given = sql_type_of(message)
    if given is None:
        raise RecordError(f"the message {message.name} has nothing that a column can have")
    read, convert = message_reader(message), columns_from(given, columns, wrapped=True)
    return lambda content: convert(read(content))


# ---- with a registry -------------------------------------------------------------------------


def protobuf_text(columns: Columns, name: str, nulls: str) -> str:
    """The schema of columns. Raises SchemaError."""
    return proto_text(message_of(columns, name, {NULLS: nulls}))


def protobuf_type(schema: ResolvedSchema) -> SqlType | None:
    """The type of the chosen message of a schema, or of its first one; None if no column can have
    it. Raises SchemaError."""
    file, path = _chosen(schema)
    return sql_type_of(file.nested[path])


def read_values(schema: ResolvedSchema, columns: Columns, wrapped: bool) -> ReadValues:
    """See `MakeReader`. Each payload says which message of the schema it is."""
    del wrapped
    try:
        file, _ = _chosen(ResolvedSchema(schema.kind, schema.text, schema.imported))
    except SchemaError as error:
        raise RecordError(f"its Protobuf schema cannot be used: {error}") from error
    known: dict[tuple[int, ...], ReadValues] = {}

    def values(content: bytes) -> Sequence[Any]:
        path, at = _read_path(content, PREFIX)
        if path not in known:
            if path not in file.nested:
                raise RecordError(f"its schema has no message number {path}")
            known[path] = _reader(file.nested[path], columns)
        return known[path](content[at:])

    return values


@lru_cache(maxsize=1_000)
def read_columns(
    schema: ResolvedSchema, columns: Columns, wrapped: bool, wanted: tuple[int, ...]
) -> ReadColumns | None:
    """See `MakeColumns`. Each batch is read as the message that its first payload is."""
    del wrapped
    if compiled_formats() is None:
        return None
    file, _ = _chosen(ResolvedSchema(schema.kind, schema.text, schema.imported))
    known: dict[bytes, ReadColumns | None] = {}

    def read(payload: Bytes) -> tuple[list[pa.Array], npt.NDArray[np.int64]] | None:
        first = payload[0].as_py()
        try:
            path, at = _read_path(first, PREFIX)
        except RecordError:
            path, at = (0,), 0
        lead = first[PREFIX:at] or b"\0"
        if path not in file.nested:
            return None
        if lead not in known:
            known[lead] = compiled_reader(file.nested[path], columns, wanted, PREFIX, lead)
        by_columns = known[lead]
        return None if by_columns is None else by_columns(payload)

    return read


def write_values(schema: ResolvedSchema, columns: Columns, wrapped: bool) -> WriteValues:
    """See `MakeWriter`."""
    del wrapped
    file, path = _chosen(schema)
    write: Callable[[Sequence[Any]], bytes] = message_writer(file.nested[path], columns)
    before = _path_bytes(path)

    def append(values: Sequence[Any], out: bytearray) -> None:
        out += before
        out += write(values)

    return append


def write_columns(schema: ResolvedSchema, columns: Columns, wrapped: bool) -> WriteColumns | None:
    """See `MakeColumnWriter`."""
    del wrapped
    file, path = _chosen(schema)
    return compiled_writer(file.nested[path], columns, _path_bytes(path))


@lru_cache(maxsize=1_000)
def _chosen(schema: ResolvedSchema) -> tuple[ProtoFile, tuple[int, ...]]:
    """The file of a schema, and the path of the chosen message."""
    file = parse_proto(schema.text, schema.imported)
    return file, file.path_of(schema.chosen) if schema.chosen else (0,)


def _read_path(content: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The numbers that lead to a message, and where it begins; none are the first message."""
    try:
        count, at = read_long(content, at)
        if not 0 <= count <= INDEXES_MAX:
            raise RecordError(f"{count} numbers lead to its message")
        found = []
        for _ in range(count):
            number, at = read_long(content, at)
            found.append(number)
    except IndexError:
        raise RecordError("the message is cut off") from None
    return tuple(found) or (0,), at


def _path_bytes(path: tuple[int, ...]) -> bytes:
    if path == (0,):
        return b"\0"
    out = bytearray()
    for number in (len(path), *path):
        put_long(number, out)
    return bytes(out)

"""Reads and writes payloads whose schemas are in a registry, a record at a time.

The records of a batch are read by groups of one schema; what reads a schema into columns is made
once and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from millstream.catalog import wordings
from millstream.catalog.formats import SCHEMA_NAME
from millstream.formats.payload import (
    Bytes,
    Layout,
    Read,
    Subject,
    Written,
    nothing_read,
)
from millstream.formats.registered import framed, prefix_of
from millstream.model.errors import RecordError
from millstream.model.physical import arrow_type
from millstream.model.python_values import counted
from millstream.model.schema_text import Schemas, SchemaText
from millstream.model.types import SqlType

Columns: TypeAlias = tuple[tuple[str, SqlType], ...]


@dataclass(frozen=True, slots=True)
class ResolvedSchema:
    """A schema with all that it imports. `chosen`: the name of the record or message among those
    of its text; empty for its first one."""

    kind: str
    text: str
    imported: tuple[tuple[str, str], ...] = ()
    chosen: str = ""


ReadValues = Callable[[bytes], Sequence[Any]]
"""The values of all columns of a payload. Raises RecordError."""
WriteValues = Callable[[Sequence[Any], bytearray], None]
"""Appends a record with the values of all columns. Raises RecordError."""
MakeReader = Callable[[ResolvedSchema, Columns, bool], ReadValues]
"""Makes a reader for columns that are wrapped, or not. Raises RecordError."""
MakeWriter = Callable[[ResolvedSchema, Columns, bool], WriteValues]
"""Makes a writer. Raises SchemaError, a ValueError."""


def subject_in(layout: Layout) -> Subject:
    """Where the schemas are. Raises StatementError where there is no registry."""
    if layout.subject is None:
        raise wordings.REGISTRY_NEEDED(what="The format", code="E-NO-REGISTRY")
    return layout.subject


def with_imports(schemas: Schemas, schema: SchemaText, chosen: str = "") -> ResolvedSchema:
    """The schema with all that it imports."""
    imported = tuple(schemas.imported(schema).items()) if schema.references else ()
    return ResolvedSchema(schema.kind, schema.text, imported, chosen)


def columns_of(layout: Layout) -> Columns:
    """The names and types of all columns."""
    return tuple((column.name, column.type) for column in layout.columns)


def read_by_schema(payload: Bytes, layout: Layout, kind: str, make: MakeReader) -> Read:
    """Read the wanted columns of each payload by its own schema, which has to be of a kind."""
    if not layout.columns:
        return nothing_read(layout, len(payload))
    schemas, chosen = subject_in(layout).schemas, layout.properties.get(SCHEMA_NAME, "")
    given = framed(payload)
    bad = given.bad
    found: list[list[Any]] = [[None] * len(payload) for _ in layout.wanted]
    for schema_id, rows in given.by_schema():
        text = schemas.by_id(schema_id)
        try:
            if text.kind != kind:
                raise RecordError(f"schema {schema_id} is {text.kind}, not {kind}")
            schema = with_imports(schemas, text, chosen)
            read = _made(make, schema, columns_of(layout), layout.wrapped)
        except RecordError as error:
            bad |= dict.fromkeys(rows.tolist(), error.message)
            continue
        contents = payload.take(pa.array(rows)).to_pylist()
        for row, content in zip(rows.tolist(), contents, strict=True):
            try:
                values = read(content)
            except RecordError as error:
                bad[row] = error.message
                continue
            for column, index in zip(found, layout.wanted, strict=True):
                column[row] = values[index]
    arrays = zip(found, layout.picked, strict=True)
    return Read(tuple(pa.array(v, arrow_type(c.type)) for v, c in arrays), bad)


@lru_cache(maxsize=1_000)
def _made(make: MakeReader, schema: ResolvedSchema, columns: Columns, wrapped: bool) -> ReadValues:
    return make(schema, columns, wrapped)


@lru_cache(maxsize=1_000)
def _made_writer(
    make: MakeWriter, schema: ResolvedSchema, columns: Columns, wrapped: bool
) -> WriteValues:
    return make(schema, columns, wrapped)


def write_by_schema(
    arrays: list[pa.Array], layout: Layout, schema: tuple[int, ResolvedSchema], make: MakeWriter
) -> Written:
    """Write each row by a schema, whose id comes first. A single column that is not wrapped and
    NULL is a NULL payload."""
    schema_id, given = schema
    write = _made_writer(make, given, columns_of(layout), layout.wrapped)
    prefix = prefix_of(schema_id)
    rows: list[bytes | None] = []
    bad = {}
    columns = [counted(array).to_pylist() for array in arrays]
    for row, values in enumerate(zip(*columns, strict=True)):
        if not layout.wrapped and values[0] is None:
            rows.append(None)
            continue
        out = bytearray(prefix)
        try:
            write(values, out)
        except RecordError as error:
            bad[row] = error.message
            rows.append(None)
            continue
        rows.append(bytes(out))
    return Written(pa.array(rows, pa.binary()), bad)

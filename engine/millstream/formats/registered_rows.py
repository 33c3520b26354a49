"""Reads and writes payloads whose schemas are in a registry, a record at a time.

The records of a batch are read by groups of one schema; what reads a schema into columns is made
once and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.catalog import wordings
from millstream.catalog.formats import SCHEMA_NAME
from millstream.formats.payload import (
    Bytes,
    Layout,
    Read,
    Subject,
    Written,
    nothing_read,
    present_rows,
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
WriteColumns = Callable[[Sequence[pa.Array], bytes], tuple[pa.Array, npt.NDArray[np.int64]] | None]
"""Writes columns behind a prefix; the payloads, and the rows that have to be written one by one;
None if all have to be."""
MakeColumnWriter = Callable[[ResolvedSchema, Columns, bool], WriteColumns | None]
"""Makes a writer of columns; None where there is none for a schema and these columns."""
MakeReader = Callable[[ResolvedSchema, Columns, bool], ReadValues]
"""Makes a reader for columns that are wrapped, or not. Raises RecordError."""
ReadColumns = Callable[[Bytes], tuple[list[pa.Array], npt.NDArray[np.int64]] | None]
"""The wanted columns of payloads with one schema, and the rows that have to be read one by one;
None if all have to be."""
MakeColumns = Callable[[ResolvedSchema, Columns, bool, tuple[int, ...]], ReadColumns | None]
"""Makes a reader of columns; None where there is none for a schema and these columns."""
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


def read_by_schema(
    payload: Bytes,
    layout: Layout,
    kind: str,
    make: MakeReader,
    make_columns: MakeColumns = lambda *_: None,
) -> Read:
    """Read the wanted columns of each payload by its own schema, which has to be of a kind."""
    if not layout.columns:
        return nothing_read(layout, len(payload))
    schemas, chosen = subject_in(layout).schemas, layout.properties.get(SCHEMA_NAME, "")
    given = framed(payload)
    bad = given.bad
    parts = _Parts(layout, len(payload))
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
        read_columns = make_columns(schema, columns_of(layout), layout.wrapped, layout.wanted)
        bad |= parts.read(payload, rows, read_columns, read)
    return Read(parts.columns(), bad)


def read_mostly_by_columns(
    payload: Bytes, layout: Layout, read_columns: ReadColumns | None, read: ReadValues
) -> Read:
    """Read the wanted columns of payloads without ids: by columns what can be, and each other row
    by itself."""
    parts = _Parts(layout, len(payload))
    bad = parts.read(payload, np.flatnonzero(present_rows(payload)), read_columns, read)
    return Read(parts.columns(), bad)


@dataclass(slots=True)
class _Parts:
    """The wanted columns of a batch, read in several parts."""

    layout: Layout
    rows: int
    places: list[npt.NDArray[np.int64]] = field(default_factory=list)
    arrays: list[list[pa.Array]] = field(default_factory=list)
    single_places: list[int] = field(default_factory=list)
    singles: list[list[Any]] = field(default_factory=list)

    def read(
        self,
        payload: Bytes,
        rows: npt.NDArray[np.int64],
        read_columns: ReadColumns | None,
        read: ReadValues,
    ) -> dict[int, str]:
        """Read some rows of the batch; returns why the bad ones are."""
        own = payload if len(rows) == len(payload) else payload.take(pa.array(rows))
        by_columns = None if read_columns is None or not len(rows) else read_columns(own)
        if by_columns is not None:
            arrays, odd = by_columns
            self._add(np.delete(rows, odd), arrays, np.delete(np.arange(len(rows)), odd))
            rows, own = rows[odd], own.take(pa.array(odd))
        bad = {}
        for row, content in zip(rows.tolist(), own.to_pylist(), strict=True):
            try:
                values = read(content)
            except RecordError as error:
                bad[row] = error.message
                continue
            self.single_places.append(row)
            self.singles.append([values[index] for index in self.layout.wanted])
        return bad

    def _add(
        self,
        places: npt.NDArray[np.int64],
        arrays: list[pa.Array],
        kept: npt.NDArray[np.int64],
    ) -> None:
        """Add columns of which the rows `kept` belong to these places of the batch."""
        if len(kept) < len(arrays[0] if arrays else kept):
            arrays = [array.take(pa.array(kept)) for array in arrays]
        self.places.append(places)
        self.arrays.append(arrays)

    def columns(self) -> tuple[pa.Array, ...]:
        """The columns; what was not added is NULL."""
        if len(self.places) == 1 and len(self.places[0]) == self.rows:
            return tuple(self.arrays[0])
        places = [*self.places, np.array(self.single_places, np.int64)]
        rest = np.setdiff1d(np.arange(self.rows), np.concatenate(places))
        order = pa.array(np.argsort(np.concatenate([*places, rest])))
        made = []
        for number, column in enumerate(self.layout.picked):
            kind = arrow_type(column.type)
            single = pa.array([row[number] for row in self.singles], kind)
            chunks = [part[number] for part in self.arrays]
            made.append(pa.concat_arrays([*chunks, single, pa.nulls(len(rest), kind)]).take(order))
        return tuple(made)


@lru_cache(maxsize=1_000)
def _made(make: MakeReader, schema: ResolvedSchema, columns: Columns, wrapped: bool) -> ReadValues:
    return make(schema, columns, wrapped)


@lru_cache(maxsize=1_000)
def _made_writer(
    make: MakeWriter, schema: ResolvedSchema, columns: Columns, wrapped: bool
) -> WriteValues:
    return make(schema, columns, wrapped)


def write_by_schema(
    arrays: list[pa.Array],
    layout: Layout,
    schema: tuple[int, ResolvedSchema],
    make: MakeWriter,
    make_columns: MakeColumnWriter = lambda *_: None,
) -> Written:
    """Write each row by a schema, whose id comes first. A single column that is not wrapped and
    NULL is a NULL payload."""
    schema_id, given = schema
    write = _made_writer(make, given, columns_of(layout), layout.wrapped)
    write_columns = make_columns(given, columns_of(layout), layout.wrapped)
    return write_mostly_by_columns(arrays, layout, prefix_of(schema_id), write_columns, write)


def write_mostly_by_columns(
    arrays: list[pa.Array],
    layout: Layout,
    prefix: bytes,
    write_columns: WriteColumns | None,
    write: WriteValues,
) -> Written:
    """Write rows behind a prefix: by columns what can be, and each other row by itself."""
    by_columns = None if write_columns is None else write_columns(arrays, prefix)
    if by_columns is None:
        return _written_one_by_one(arrays, layout, write, prefix)
    payload, odd = by_columns
    if not layout.wrapped:
        payload = pc.if_else(pc.is_null(arrays[0]), pa.scalar(None, pa.binary()), payload)
    if not len(odd):
        return Written(payload)
    rest = [array.take(pa.array(odd)) for array in arrays]
    others = _written_one_by_one(rest, layout, write, prefix)
    order = np.arange(len(payload))
    order[odd] = len(payload) + np.arange(len(odd))
    bad = {int(odd[row]): reason for row, reason in others.bad.items()}
    return Written(pa.concat_arrays([payload, others.payload]).take(pa.array(order)), bad)


def _written_one_by_one(
    arrays: list[pa.Array], layout: Layout, write: WriteValues, prefix: bytes
) -> Written:
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

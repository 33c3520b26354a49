"""The input and output of every format: one side (key or value) of the records of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.errors import RecordError
from millstream.model.physical import arrow_type
from millstream.model.schema import Column
from millstream.model.schema_text import Schemas

Bytes: TypeAlias = pa.BinaryArray
"""A binary array; the payloads of one side of a batch."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject of a registry: it has the schemas of one side of the records of a topic. `source`:
    the stream or table that is written. `inserting`: the rows of a client are written by the newest
    schema that there is, instead of one that is made from the columns."""

    schemas: Schemas
    name: str
    source: str
    is_key: bool
    inserting: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one side of a record, in order.

    `wrapped`: whether a single column is in a record of one field or is the whole payload. `wanted`
    are the indices of the columns to read; writing uses all of them.
    """

    columns: tuple[Column, ...]
    wanted: tuple[int, ...] = ()
    wrapped: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    subject: Subject | None = None
    """For formats that have their schemas in a registry; None if there is none."""

    @property
    def picked(self) -> tuple[Column, ...]:
        """The columns to read."""
        return tuple(self.columns[index] for index in self.wanted)


@dataclass(frozen=True, slots=True)
class Read:
    """Columns in the order of `Layout.wanted`, NULL where the payload is.

    `bad` gives the error of each row that cannot be read; its columns are undefined. `absent` are
    rows whose payload has bytes but no value (the JSON text `null`).
    """

    columns: tuple[pa.Array, ...]
    bad: Mapping[int, str] = field(default_factory=dict)
    absent: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Written:
    """The payload of each row, and the errors of rows that cannot be written (their payload is
    undefined)."""

    payload: Bytes
    bad: Mapping[int, str] = field(default_factory=dict)


def nothing_read(layout: Layout, rows: int) -> Read:
    """All columns NULL."""
    return Read(tuple(pa.nulls(rows, arrow_type(column.type)) for column in layout.picked))


def read_one_by_one(
    payloads: Sequence[bytes | None],
    layout: Layout,
    values_of: Callable[[bytes], Sequence[Any] | None],
) -> Read:
    """Read each record in Python. `values_of` returns the values of all columns of a record, wanted
    or not, because whether a record is bad must not depend on the query. It returns None for bytes
    without a value, and raises RecordError for a bad record."""
    found: list[list[Any]] = [[None] * len(payloads) for _ in layout.wanted]
    bad: dict[int, str] = {}
    absent = set()
    for row, payload in enumerate(payloads):
        if payload is None:
            continue
        try:
            values = values_of(payload)
        except RecordError as error:
            bad[row] = error.message
            continue
        if values is None:
            absent.add(row)
            continue
        for column, index in zip(found, layout.wanted, strict=True):
            column[row] = values[index]
    arrays = zip(found, layout.picked, strict=True)
    return Read(tuple(pa.array(v, arrow_type(c.type)) for v, c in arrays), bad, frozenset(absent))


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array without offset into its buffers."""
    array = column
    if isinstance(column, pa.ChunkedArray):
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks)
    if array.offset:
        return pc.take(array, row_numbers(array))
    # The children of a nested array may have offsets of their own.
    return pa.concat_arrays([array]) if pa.types.is_nested(array.type) else array


def row_numbers(rows: Sequence[object]) -> pa.Array:
    """0, 1, 2 … for each row."""
    return pa.array(np.arange(len(rows)))


def byte_content(array: Bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The start of each value of a binary array (and the end of the last), and all bytes."""
    _, offsets, content = array.buffers()
    starts = np.frombuffer(offsets, np.int32, len(array) + 1 + array.offset)[array.offset :]
    filled = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    return starts.astype(np.int64), filled


def fixed_bytes(values: npt.NDArray[np.uint8], present: npt.NDArray[np.bool_]) -> Bytes:
    """A binary array of the rows of a matrix; NULL where `present` is false."""
    rows, width = values.shape
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), rows, [None, pa.py_buffer(np.ascontiguousarray(values))]
    )
    array = fixed.cast(pa.binary())
    if present.all():
        return array
    return pc.if_else(pa.array(present), array, pa.scalar(None, pa.binary()))


def present_rows(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Where the array has a value."""
    if array.null_count == 0:
        return np.ones(len(array), np.bool_)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)

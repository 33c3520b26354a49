"""Makes columns of what compiled code has read from payloads of a format (columns.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.conversion import place_of
from millstream.formats.payload import Bytes
from millstream.formats.registered_rows import Columns, ReadColumns
from millstream.model.physical import arrow_type
from millstream.model.types import BOOLEAN, BYTES, STRING, Map, SqlType


class UnsupportedError(Exception):
    """Something that compiled code does not do; it is left to what reads or writes rows."""


@dataclass(frozen=True, slots=True)
class WireColumns:
    """What was read, one column for each node; freed by `close`."""

    library: ctypes.CDLL
    handle: int

    def close(self) -> None:
        """Free it; the columns that were made of it stay."""
        self.library.ms_columns_free(self.handle)

    def parts(self, node: int) -> tuple[int, pa.Buffer | None, pa.Buffer, pa.Buffer]:
        """The number of values, the bits of those that are valid, the values, and the offsets."""
        at, sizes = (ctypes.c_void_p * 3)(), (ctypes.c_int64 * 3)()
        self.library.ms_column(self.handle, node, at, sizes)
        valid, data, offsets = (
            ctypes.string_at(place, size) if place and size else b""
            for place, size in zip(at, sizes, strict=True)
        )
        bits = None
        present = np.frombuffer(valid, np.uint8)
        if not present.all():
            bits = pa.py_buffer(np.packbits(present, bitorder="little"))
        return len(valid), bits, pa.py_buffer(data), pa.py_buffer(offsets)


Finish: TypeAlias = Callable[[WireColumns], pa.Array]
"""Makes a column of what was read."""


def columns_of_fields(names: Sequence[str], columns: Columns) -> dict[str, int]:
    """The places of columns, by the names of the fields that they have. Raises UnsupportedError if
    two columns have the same one."""
    found: dict[str, int] = {}
    for index, (name, _) in enumerate(columns):
        place = place_of(name, names)
        if place is not None and found.setdefault(names[place], index) != index:
            raise UnsupportedError
    return found


def plain_column(node: int, wanted: SqlType | None) -> Finish:
    """Values without others in them."""

    def make(read: WireColumns) -> pa.Array:
        assert wanted is not None
        rows, bits, data, offsets = read.parts(node)
        buffers = [bits, data]
        if wanted in (STRING, BYTES):
            buffers = [bits, offsets, data]
        elif wanted == BOOLEAN:
            flags = np.packbits(np.frombuffer(data, np.uint8), bitorder="little")
            buffers = [bits, pa.py_buffer(flags)]
        return pa.Array.from_buffers(arrow_type(wanted), rows, buffers)

    return make


def symbol_column(node: int, symbols: Mapping[int, str]) -> Finish:
    """Names of 32-bit numbers; one without a name is its digits."""
    known = pa.array(symbols, pa.int32())
    names = pa.array(symbols.values(), pa.string())

    def make(read: WireColumns) -> pa.Array:
        rows, bits, data, _ = read.parts(node)
        chosen = pa.Array.from_buffers(pa.int32(), rows, [bits, data])
        found = names.take(pc.index_in(chosen, value_set=known))
        if found.null_count > chosen.null_count:
            found = pc.coalesce(found, chosen.cast(pa.string()))
        return found

    return make


def list_column(node: int, wanted: SqlType | None, item: Finish) -> Finish:
    """Lists of the items that another column has."""

    def make(read: WireColumns) -> pa.Array:
        assert wanted is not None
        rows, bits, _, offsets = read.parts(node)
        children = [item(read)]
        return pa.Array.from_buffers(arrow_type(wanted), rows, [bits, offsets], children=children)

    return make


def map_column(node: int, wanted: SqlType | None, key: Finish, value: Finish) -> Finish:
    """Maps of the entries whose keys and values other columns have."""

    def make(read: WireColumns) -> pa.Array:
        assert isinstance(wanted, Map)
        kind = arrow_type(wanted)
        rows, bits, _, offsets = read.parts(node)
        found = [key(read), value(read)]
        entries = pa.struct([kind.key_field, kind.item_field])
        inner = pa.Array.from_buffers(entries, len(found[0]), [None], children=found)
        return pa.Array.from_buffers(kind, rows, [bits, offsets], children=[inner])

    return make


def struct_column(node: int, wanted: SqlType | None, members: Sequence[Finish | None]) -> Finish:
    """Structs of columns; None: one that is always NULL."""

    def make(read: WireColumns) -> pa.Array:
        assert wanted is not None
        kind = arrow_type(wanted)
        rows, bits, _, _ = read.parts(node)
        children = [
            pa.nulls(rows, kind.field(place).type) if member is None else member(read)
            for place, member in enumerate(members)
        ]
        return pa.Array.from_buffers(kind, rows, [bits], children=children)

    return make


def ignored_column(node: int) -> Finish:
    """What is read, but not kept."""

    def make(read: WireColumns) -> pa.Array:
        raise AssertionError(f"node {node} of {read.handle} is not kept")

    return make


Call: TypeAlias = Callable[[int, int, int, int], int]
"""Reads so many payloads in compiled code: the addresses of their bytes and of their offsets, how
many they are, and the address of the marks of rows that are left over. 0 if there is not enough
memory, else a handle for `WireColumns`."""


def column_reader(
    library: ctypes.CDLL,
    call: Call,
    finish: Sequence[Finish | None],
    kinds: Sequence[pa.DataType],
) -> ReadColumns:
    """Reads payloads into columns of these types; None: one that is always NULL."""

    def read(payload: Bytes) -> tuple[list[pa.Array], npt.NDArray[np.int64]] | None:
        _, offsets, content = payload.buffers()
        rows, odd = len(payload), np.zeros(len(payload), np.uint8)
        if content is None:
            content = pa.py_buffer(b"\0")
        at = offsets.address + 4 * payload.offset
        handle = call(content.address, at, rows, odd.ctypes.data)
        if not handle:
            return None
        found = WireColumns(library, handle)
        try:
            arrays = [
                pa.nulls(rows, kind) if make is None else make(found)
                for make, kind in zip(finish, kinds, strict=True)
            ]
        finally:
            found.close()
        return arrays, np.flatnonzero(odd)

    return read

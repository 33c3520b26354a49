"""Gives the buffers of columns to compiled code that writes them as payloads (payloads.h)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from millstream.formats.library import Source
from millstream.formats.registered_rows import WriteColumns


@dataclass(slots=True)
class SourceTree:
    """The nodes so far, and what their buffers are in."""

    nodes: list[Source] = field(default_factory=list)
    kept: list[object] = field(default_factory=list)

    def add(self, kind: int, array: pa.Array | None, **more: int) -> Source:
        """Add a node; `end` has to follow its children."""
        node = Source(kind=kind, instead_size=-1, **more)
        if array is not None and array.null_count:
            valid = pc.is_valid(array).to_numpy(zero_copy_only=False).astype(np.uint8)
            node.valid = self._address(valid)
        self.nodes.append(node)
        return node

    def end(self, node: Source) -> None:
        """Note where a node's subtree ends."""
        node.next = len(self.nodes)

    def leaf(self, kind: int, array: pa.Array, **more: int) -> Source:
        """Add a node without children, and its values."""
        node = self.add(kind, array, **more)
        if kinds.is_boolean(array.type):
            flags = pc.fill_null(array, False).to_numpy(zero_copy_only=False).astype(np.uint8)
            node.data = self._address(flags)
        elif kinds.is_binary(array.type) or kinds.is_string(array.type):
            self.offsets(node, array)
            node.data = self._start(array.buffers()[2])
        else:
            width = array.type.bit_width // 8
            node.data = self._start(array.buffers()[1]) + width * array.offset
        self.end(node)
        return node

    def offsets(self, node: Source, array: pa.Array) -> None:
        """The offsets of a column that has some."""
        node.offsets = self._start(array.buffers()[1]) + 4 * array.offset

    def before(self, node: Source, content: bytes) -> None:
        """What precedes a node's values."""
        node.before, node.before_size = self._text(content), len(content)

    def instead(self, node: Source, content: bytes) -> None:
        """What stands for a value that is not there."""
        node.instead, node.instead_size = self._text(content), len(content)

    def _start(self, buffer: pa.Buffer | None) -> int:
        """The address of a buffer; of one that there is not, that of a byte."""
        if buffer is None:
            return self._text(b"")
        self.kept.append(buffer)
        return int(buffer.address)

    def _text(self, content: bytes) -> int:
        return self._address(np.frombuffer(content or b"\0", np.uint8))

    def _address(self, values: npt.NDArray[np.uint8]) -> int:
        self.kept.append(values)
        return int(values.ctypes.data)


Fill: TypeAlias = Callable[[SourceTree, pa.Array], None]
"""Adds the nodes of a type with the buffers of a column."""


def list_source(kind: int, inner: Fill) -> Fill:
    """A list of what `inner` adds."""

    def add(tree: SourceTree, array: pa.Array) -> None:
        node = tree.add(kind, array)
        tree.offsets(node, array)
        inner(tree, array.values)
        tree.end(node)

    return add


def map_source(
    kind: int,
    record: int,
    members: Sequence[tuple[int, Fill]],
    before: bytes = b"",
    **more: int,
) -> Fill:
    """A list of records, each behind some bytes, whose members are keys (0) and values (1)."""

    def add(tree: SourceTree, array: pa.Array) -> None:
        node = tree.add(kind, array)
        tree.offsets(node, array)
        entry = tree.add(record, None, **more)
        tree.before(entry, before)
        for place, member in members:
            member(tree, (array.keys, array.items)[place])
        tree.end(entry)
        tree.end(node)

    return add


def record_source(kind: int, members: Sequence[tuple[int, Fill]], before: bytes = b"") -> Fill:
    """A struct behind some bytes: the place of each member, and what adds it."""

    def add(tree: SourceTree, array: pa.Array) -> None:
        node = tree.add(kind, array)
        tree.before(node, before)
        for place, member in members:
            member(tree, array.field(place))
        tree.end(node)

    return add


def column_writer(
    library: ctypes.CDLL, write: Any, members: Sequence[tuple[int, Fill]], before: bytes = b""
) -> WriteColumns:
    """Writes columns by a function of compiled code, each payload with `before` behind its prefix.
    `members`: the place of each column, and what adds it."""

    def write_columns(
        arrays: Sequence[pa.Array], prefix: bytes
    ) -> tuple[pa.Array, npt.NDArray[np.int64]] | None:
        tree = SourceTree()
        for place, add in members:
            add(tree, arrays[place])
        return _payloads(library, write, tree, len(arrays[0]), prefix + before)

    return write_columns


def _payloads(
    library: ctypes.CDLL, write: Any, tree: SourceTree, rows: int, prefix: bytes
) -> tuple[pa.Array, npt.NDArray[np.int64]] | None:
    """What a function of compiled code writes, and the rows that are left over; None if there is
    not enough memory. See `ms_payloads`."""
    nodes = (Source * len(tree.nodes))(*tree.nodes)
    offsets, odd = np.zeros(rows + 1, np.int32), np.zeros(rows, np.uint8)
    at = write(nodes, len(nodes), rows, prefix, len(prefix), offsets.ctypes.data, odd.ctypes.data)
    if not at:
        return None
    content = pa.py_buffer(ctypes.string_at(at, int(offsets[-1])))
    library.ms_payloads_free(at)
    buffers = [None, pa.py_buffer(offsets), content]
    return pa.Array.from_buffers(pa.binary(), rows, buffers), np.flatnonzero(odd)

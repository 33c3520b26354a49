"""Writes AVRO by columns, in compiled code (avro_write.c).

What a schema demands becomes a tree of nodes in preorder, each with the buffers of its column. Rows
that the schema cannot have are left to `avro_write`, which says why.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.avro_schema import (
    AvroType,
    Enumeration,
    Fixed,
    Items,
    Logical,
    Plain,
    Record,
    Union,
    Values,
    parse_avro,
)
from millstream.formats.avro_write import default_of, writes
from millstream.formats.conversion import place_of
from millstream.formats.library import Source, compiled_formats
from millstream.formats.registered_rows import Columns, ResolvedSchema, WriteColumns
from millstream.formats.schema_error import SchemaError
from millstream.formats.zigzag import put_long
from millstream.model.physical import MAX_DECIMAL_PRECISION
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Map,
    SqlType,
    Struct,
)

BOOL, INT, LONG, FLOAT, DOUBLES, BYTE, FIXED, MILLIS, DECIMAL, EITHER, LIST, RECORD, LITERAL = (
    range(13)
)
"""`enum kind` of avro_write.c."""
_PLAIN: Mapping[tuple[str, SqlType], int] = {
    ("boolean", BOOLEAN): BOOL,
    ("int", INTEGER): INT,
    ("long", INTEGER): INT,
    ("long", BIGINT): LONG,
    ("float", DOUBLE): FLOAT,
    ("double", DOUBLE): DOUBLES,
    ("bytes", BYTES): BYTE,
    ("string", STRING): BYTE,
}
_LOGICAL: Mapping[tuple[str, SqlType], int] = {
    ("date", DATE): INT,
    ("time-millis", TIME): MILLIS,
    ("timestamp-millis", TIMESTAMP): MILLIS,
}
Fill = Callable[["_Tree", pa.Array], None]
"""Adds the nodes of a type with the buffers of a column."""


class _UnsupportedError(Exception):
    """Something that only `avro_write` can do."""


@dataclass(slots=True)
class _Tree:
    """The nodes so far, and what their buffers are in."""

    nodes: list[Source] = field(default_factory=list)
    kept: list[object] = field(default_factory=list)

    def add(self, kind: int, array: pa.Array | None, size: int = 0, digits: int = 0) -> Source:
        """Add a node; `end` has to follow its children."""
        node = Source(kind=kind, size=size, digits=digits, instead_size=-1)
        if array is not None and array.null_count:
            valid = pc.is_valid(array).to_numpy(zero_copy_only=False).astype(np.uint8)
            node.valid = self._address(valid)
        self.nodes.append(node)
        return node

    def end(self, node: Source) -> None:
        """Note where a node's subtree ends."""
        node.next = len(self.nodes)

    def _address(self, values: npt.NDArray[np.uint8]) -> int:
        self.kept.append(values)
        return int(values.ctypes.data)

    def text(self, content: bytes) -> int:
        """The address of some bytes."""
        return self._address(np.frombuffer(content or b"\0", np.uint8))

    def values(self, node: Source, array: pa.Array, width: int) -> None:
        """The values of a column of fixed width."""
        content = array.buffers()[1]
        self.kept.append(content)
        node.data = 0 if content is None else content.address + width * array.offset

    def offsets(self, node: Source, array: pa.Array) -> None:
        """The offsets of a column that has some."""
        content = array.buffers()[1]
        self.kept.append(content)
        node.offsets = content.address + 4 * array.offset


def compiled_writer(schema: ResolvedSchema, columns: Columns, wrapped: bool) -> WriteColumns | None:
    """Writes columns as payloads of a schema; None where only `avro_write` can. It returns None for
    a batch for which there is not enough memory. Raises SchemaError as `avro_writer` does."""
    library = compiled_formats()
    return None if library is None else _writer(library, schema, columns, wrapped)


@lru_cache(maxsize=1_000)
def _writer(
    library: ctypes.CDLL, schema: ResolvedSchema, columns: Columns, wrapped: bool
) -> WriteColumns | None:
    parsed = parse_avro(schema.text, dict(schema.imported))
    try:
        if wrapped:
            if not isinstance(parsed, Record):
                return None
            fill = _fields(parsed, columns)
        else:
            ((_, kind),) = columns
            one = _node(parsed, kind)
            fill = [(0, one)]
    except _UnsupportedError:
        return None

    def write(
        arrays: Sequence[pa.Array], prefix: bytes
    ) -> tuple[pa.Array, npt.NDArray[np.int64]] | None:
        rows, tree = len(arrays[0]), _Tree()
        for place, add in fill:
            add(tree, arrays[max(place, 0)])
        nodes = (Source * len(tree.nodes))(*tree.nodes)
        offsets, odd = np.zeros(rows + 1, np.int32), np.zeros(rows, np.uint8)
        at = library.ms_avro_write(
            nodes, len(nodes), rows, prefix, len(prefix), offsets.ctypes.data, odd.ctypes.data
        )
        if not at:
            return None
        content = pa.py_buffer(ctypes.string_at(at, int(offsets[-1])))
        library.ms_avro_written_free(at)
        buffers = [None, pa.py_buffer(offsets), content]
        return pa.Array.from_buffers(pa.binary(), rows, buffers), np.flatnonzero(odd)

    return write


def _fields(record: Record, columns: Columns) -> list[tuple[int, Fill]]:
    """What adds the nodes of each field, and the place of its column; -1: it has none."""
    found: list[tuple[int, Fill]] = []
    for each in record.fields:
        place = place_of(each.name, [name for name, _ in columns])
        if place is None:
            found.append((-1, _literal(default_of(each))))
            continue
        inner = _node(each.type, columns[place][1])
        nullable = isinstance(each.type, Union) and Plain("null") in each.type.branches
        if each.has_default and not nullable:
            inner = _either(b"", default_of(each), inner)
        found.append((place, inner))
    return found


def _node(schema: AvroType, kind: SqlType) -> Fill:
    match schema, kind:
        case Union(branches), _:
            return _union(branches, kind)
        case Plain(name), _ if (name, kind) in _PLAIN:
            return _values(_PLAIN[name, kind])
        case Fixed(_, size), _ if kind == BYTES:
            return _values(FIXED, size)
        case Logical(name=name), _ if (name, kind) in _LOGICAL:
            return _values(_LOGICAL[name, kind])
        case Logical(of, "decimal", precision, scale), Decimal() if scale == kind.scale:
            if max(kind.precision, precision) <= MAX_DECIMAL_PRECISION:
                size = of.size if isinstance(of, Fixed) else 0
                if size or not isinstance(of, Fixed):
                    return _values(DECIMAL, size, precision)
        case Enumeration(_, symbols), _ if kind == STRING:
            return _symbols(symbols)
        case Items(Record(is_entry=True) as entry), Map(key, member):
            return _map(entry, (("key", key), ("value", member)))
        case Values(value), Map(key, member) if key == STRING:
            return _pairs(_node(value, member))
        case Items(item), Array(element):
            return _list(_node(item, element))
        case Record(), Struct(fields):
            return _record(_fields(schema, tuple((each.name, each.type) for each in fields)))
    raise _UnsupportedError


def _union(branches: tuple[AvroType, ...], kind: SqlType) -> Fill:
    """The first branch that has the type, as in `avro_write`."""
    null = next((n for n, branch in enumerate(branches) if branch == Plain("null")), None)
    instead = None if null is None else _long(null)
    for number, branch in enumerate(branches):
        if number != null and writes(branch, kind):
            return _either(_long(number), instead, _node(branch, kind))
    raise SchemaError(f"{kind} is in no branch of the schema")


def _long(number: int) -> bytes:
    made = bytearray()
    put_long(number, made)
    return bytes(made)


def _either(before: bytes, instead: bytes | None, inner: Fill) -> Fill:
    def add(tree: _Tree, array: pa.Array) -> None:
        node = tree.add(EITHER, array)
        node.before, node.before_size = tree.text(before), len(before)
        if instead is not None:
            node.instead, node.instead_size = tree.text(instead), len(instead)
        inner(tree, array)
        tree.end(node)

    return add


def _literal(content: bytes) -> Fill:
    def add(tree: _Tree, _: pa.Array) -> None:
        node = tree.add(LITERAL, None)
        node.before, node.before_size = tree.text(content), len(content)
        tree.end(node)

    return add


_WIDTHS = {INT: 4, LONG: 8, MILLIS: 8, FLOAT: 8, DOUBLES: 8, DECIMAL: 16}


def _values(kind: int, size: int = 0, digits: int = 0) -> Fill:
    def add(tree: _Tree, array: pa.Array) -> None:
        node = tree.add(kind, array, size, digits)
        if kind in _WIDTHS:
            tree.values(node, array, _WIDTHS[kind])
        elif kind == BOOL:
            flags = pc.fill_null(array, False).to_numpy(zero_copy_only=False).astype(np.uint8)
            tree.kept.append(flags)
            node.data = int(flags.ctypes.data)
        else:
            tree.offsets(node, array)
            content = array.buffers()[2]
            tree.kept.append(content)
            node.data = 0 if content is None else content.address
        tree.end(node)

    return add


def _symbols(symbols: tuple[str, ...]) -> Fill:
    chosen, known = _values(INT), pa.array(symbols, pa.string())
    # What is no symbol is NULL, so the row is left over.
    return lambda tree, array: chosen(tree, pc.index_in(array, value_set=known, skip_nulls=True))


def _list(inner: Fill) -> Fill:
    def add(tree: _Tree, array: pa.Array) -> None:
        node = tree.add(LIST, array)
        tree.offsets(node, array)
        inner(tree, array.values)
        tree.end(node)

    return add


def _pairs(inner: Fill) -> Fill:
    """A map: texts and what they stand for."""
    key = _values(BYTE)

    def add(tree: _Tree, array: pa.Array) -> None:
        node = tree.add(LIST, array)
        tree.offsets(node, array)
        entry = tree.add(RECORD, None)
        key(tree, array.keys)
        inner(tree, array.items)
        tree.end(entry)
        tree.end(node)

    return add


def _map(entry: Record, columns: Columns) -> Fill:
    """A map whose entries are records."""
    members = _fields(entry, columns)

    def add(tree: _Tree, array: pa.Array) -> None:
        node = tree.add(LIST, array)
        tree.offsets(node, array)
        record = tree.add(RECORD, None)
        for place, member in members:
            member(tree, (array.keys, array.items)[max(place, 0)])
        tree.end(record)
        tree.end(node)

    return add


def _record(members: list[tuple[int, Fill]]) -> Fill:
    def add(tree: _Tree, array: pa.Array) -> None:
        node = tree.add(RECORD, array)
        for place, member in members:
            member(tree, array.field(max(place, 0)))
        tree.end(node)

    return add

"""Writes PROTOBUF by columns, in compiled code.

What a message has becomes a tree of nodes in preorder, each with the buffers of its column. Rows
that the message cannot have are left to `proto_write`, which says why.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.conversion import place_of
from millstream.formats.library import compiled_formats
from millstream.formats.proto_types import (
    Enumerated,
    Known,
    Label,
    MapOf,
    Message,
    ProtoField,
    Scalar,
    Unrepeatable,
    Wrapper,
)
from millstream.formats.protobuf_wire import FIXED32, FIXED64, LENGTH, VARINT, tag
from millstream.formats.registered_rows import Columns, WriteColumns
from millstream.formats.wire_columns import UnsupportedError
from millstream.formats.wire_sources import (
    Fill,
    SourceTree,
    column_writer,
    list_source,
    map_source,
    record_source,
)
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

WHOLE, ZIGZAG, FIX32, FIX64, BOOL, FLOAT, DOUBLES, SYMBOL, BYTE, DATES, TIMES, STAMP = range(12)
DECIMAL, LIST, PACKED, MESSAGE, BOXED, REFUSED = range(12, 18)
"""`enum kind` of proto_write.c."""
_NO_NAME = np.iinfo(np.int64).min
"""The number of a text that is no name of its enum."""
_SCALARS: Mapping[str, tuple[int, int, tuple[SqlType, ...]]] = {
    "int32": (WHOLE, 0, (INTEGER,)),
    "int64": (WHOLE, 0, (INTEGER, BIGINT)),
    "uint32": (WHOLE, 32, (INTEGER, BIGINT)),
    "uint64": (WHOLE, 64, (INTEGER, BIGINT)),
    "sint32": (ZIGZAG, 0, (INTEGER,)),
    "sint64": (ZIGZAG, 0, (INTEGER, BIGINT)),
    "fixed32": (FIX32, 32, (INTEGER, BIGINT)),
    "fixed64": (FIX64, 64, (INTEGER, BIGINT)),
    "sfixed32": (FIX32, 0, (INTEGER,)),
    "sfixed64": (FIX64, 0, (INTEGER, BIGINT)),
    "bool": (BOOL, 0, (BOOLEAN,)),
    "float": (FLOAT, 0, (DOUBLE,)),
    "double": (DOUBLES, 0, (DOUBLE,)),
    "string": (BYTE, 0, (STRING,)),
    "bytes": (BYTE, 0, (BYTES,)),
}
"""The kind of a scalar, the bits of one without a sign, and the columns that can be one."""
_LONG = ("string", "bytes")
"""Scalars that are not packed."""
_KNOWN: Mapping[SqlType, int] = {DATE: DATES, TIME: TIMES, TIMESTAMP: STAMP}
_WIRES: Mapping[int, int] = {
    **dict.fromkeys((WHOLE, ZIGZAG, BOOL, SYMBOL), VARINT),
    **dict.fromkeys((FIX32, FLOAT), FIXED32),
    **dict.fromkeys((FIX64, DOUBLES), FIXED64),
}


def compiled_writer(message: Message, columns: Columns, before: bytes) -> WriteColumns | None:
    """Writes columns as messages, each with `before` behind its prefix; None where only
    `proto_write` can. It returns None for a batch for which there is not enough memory."""
    library = compiled_formats()
    return None if library is None else _writer(library, message, columns, before)


@lru_cache(maxsize=1_000)
def _writer(
    library: ctypes.CDLL, message: Message, columns: Columns, before: bytes
) -> WriteColumns | None:
    try:
        members = _members(message, columns)
    except UnsupportedError:
        return None
    return column_writer(library, library.ms_proto_write, members, before)


def _members(message: Message, columns: Columns) -> list[tuple[int, Fill]]:
    """What adds the nodes of each field, and the place of its column; fields that no column has
    are left out."""
    names = [name for name, _ in columns]
    places = [(place_of(each.name, names), each) for each in message.fields]
    return [(place, _field(each, columns[place][1])) for place, each in places if place is not None]


def _field(field: ProtoField, kind: SqlType) -> Fill:
    match field.type, kind:
        case MapOf(key, value), Map(of_key, member):
            entry = [
                (0, _value(ProtoField(1, "key", key), of_key)),
                (1, _value(ProtoField(2, "value", value), member)),
            ]
            return map_source(LIST, MESSAGE, entry, tag(field.number, LENGTH), size=1)
        case Scalar(name), Array(element) if field.label is Label.REPEATED and name not in _LONG:
            return _packed(field.number, _scalar(name, element))
        case _, Array(element) if field.label is Label.REPEATED:
            return list_source(LIST, _value(field, element))
        case _ if field.label is not Label.REPEATED:
            return _value(field, kind)
    raise UnsupportedError


def _value(field: ProtoField, kind: SqlType) -> Fill:
    """A value that is not repeated."""
    of, number = field.type, field.number
    match of, kind:
        case Scalar(name), _:
            return _tagged(number, _scalar(name, kind), zeros=field.label is not Label.SINGULAR)
        case Enumerated(names), _ if kind == STRING:
            return _symbols(number, names)
        case Wrapper(inner), _:
            members = _value(ProtoField(1, field.name, inner), kind)
            return _boxed(tag(number, LENGTH), members)
        case Message(), Struct(fields):
            columns = tuple((each.name, each.type) for each in fields)
            return record_source(MESSAGE, _members(of, columns), tag(number, LENGTH))
        case Known(Decimal(precision, scale)), Decimal() if kind.scale == scale:
            if max(precision, kind.precision) <= MAX_DECIMAL_PRECISION:
                return _tagged(number, _Leaf(DECIMAL, precision, scale))
        case Known(known), _ if known == kind and known in _KNOWN:
            return _tagged(number, _Leaf(_KNOWN[known], size=4 if known == DATE else 8))
        case Unrepeatable(refused), _ if refused == kind:
            return _refused
    raise UnsupportedError


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A node without children; see proto_write.c."""

    kind: int
    digits: int = 0
    size: int = 0


def _scalar(name: str, kind: SqlType) -> _Leaf:
    of, digits, columns = _SCALARS[name]
    if kind not in columns:
        raise UnsupportedError
    return _Leaf(of, digits, 4 if kind == INTEGER else 8)


def _tagged(number: int, leaf: _Leaf, *, zeros: bool = True) -> Fill:
    """Values behind their tags. `zeros`: also those that are zero."""
    before = tag(number, _WIRES.get(leaf.kind, LENGTH))

    def add(tree: SourceTree, array: pa.Array) -> None:
        node = tree.leaf(leaf.kind, array, size=leaf.size, digits=leaf.digits)
        tree.before(node, before)
        if not zeros:
            tree.instead(node, b"")

    return add


def _packed(number: int, leaf: _Leaf) -> Fill:
    """A list of numbers in one field."""
    before = tag(number, LENGTH)

    def add(tree: SourceTree, array: pa.Array) -> None:
        node = tree.add(PACKED, array)
        tree.before(node, before)
        tree.offsets(node, array)
        tree.leaf(leaf.kind, array.values, size=leaf.size, digits=leaf.digits)
        tree.end(node)

    return add


def _symbols(number: int, names: Sequence[tuple[int, str]]) -> Fill:
    """The numbers of names."""
    numbers = {name: value for value, name in names}
    known = pa.array(numbers, pa.string())
    values = pa.array(numbers.values(), pa.int64())
    inner = _tagged(number, _Leaf(SYMBOL, size=8))

    def add(tree: SourceTree, array: pa.Array) -> None:
        found = values.take(pc.index_in(array, value_set=known, skip_nulls=True))
        if found.null_count > array.null_count:
            none = pa.scalar(_NO_NAME, pa.int64())
            found = pc.if_else(pc.and_(pc.is_null(found), pc.is_valid(array)), none, found)
        inner(tree, found)

    return add


def _boxed(before: bytes, inner: Fill) -> Fill:
    """A message of one field, which has the value."""

    def add(tree: SourceTree, array: pa.Array) -> None:
        node = tree.add(BOXED, array)
        tree.before(node, before)
        inner(tree, array)
        tree.end(node)

    return add


def _refused(tree: SourceTree, array: pa.Array) -> None:
    tree.end(tree.add(REFUSED, array))

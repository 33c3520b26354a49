"""Writes AVRO by columns, in compiled code (avro_write.c).

What a schema demands becomes a tree of nodes in preorder, each with the buffers of its column. Rows
that the schema cannot have are left to `avro_write`, which says why.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import lru_cache

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
from millstream.formats.library import compiled_formats
from millstream.formats.registered_rows import Columns, ResolvedSchema, WriteColumns
from millstream.formats.schema_error import SchemaError
from millstream.formats.wire_columns import UnsupportedError
from millstream.formats.wire_sources import (
    Fill,
    SourceTree,
    column_writer,
    list_source,
    map_source,
    record_source,
)
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
            fill = _places(_fields(parsed, columns))
        else:
            ((_, kind),) = columns
            one = _node(parsed, kind)
            fill = [(0, one)]
    except UnsupportedError:
        return None
    return column_writer(library, library.ms_avro_write, fill)


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


def _places(fields: list[tuple[int, Fill]]) -> list[tuple[int, Fill]]:
    """Fields without a column have that of another one, which they do not use."""
    return [(max(place, 0), fill) for place, fill in fields]


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
            of_entry = (("key", key), ("value", member))
            return map_source(LIST, RECORD, _places(_fields(entry, of_entry)))
        case Values(value), Map(key, member) if key == STRING:
            pairs = [(0, _values(BYTE)), (1, _node(value, member))]
            return map_source(LIST, RECORD, pairs)
        case Items(item), Array(element):
            return list_source(LIST, _node(item, element))
        case Record(), Struct(fields):
            columns = tuple((each.name, each.type) for each in fields)
            return record_source(RECORD, _places(_fields(schema, columns)))
    raise UnsupportedError


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
    def add(tree: SourceTree, array: pa.Array) -> None:
        node = tree.add(EITHER, array)
        tree.before(node, before)
        if instead is not None:
            tree.instead(node, instead)
        inner(tree, array)
        tree.end(node)

    return add


def _literal(content: bytes) -> Fill:
    def add(tree: SourceTree, _: pa.Array) -> None:
        node = tree.add(LITERAL, None)
        tree.before(node, content)
        tree.end(node)

    return add


def _values(kind: int, size: int = 0, digits: int = 0) -> Fill:
    def add(tree: SourceTree, array: pa.Array) -> None:
        tree.leaf(kind, array, size=size, digits=digits)

    return add


def _symbols(symbols: tuple[str, ...]) -> Fill:
    chosen, known = _values(INT), pa.array(symbols, pa.string())
    # What is no symbol is NULL, so the row is left over.
    return lambda tree, array: chosen(tree, pc.index_in(array, value_set=known, skip_nulls=True))

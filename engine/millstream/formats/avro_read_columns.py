"""Reads AVRO by columns, in compiled code, where the columns have the types of the schema.

What a schema demands becomes a tree of nodes in preorder. Payloads that do not follow it are left
to `avro_read`, which says why, or reads them by rules that are not compiled.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from millstream.formats.avro_schema import (
    AvroField,
    AvroType,
    Enumeration,
    Fixed,
    Items,
    Logical,
    Plain,
    Record,
    Recursion,
    Union,
    Values,
    parse_avro,
)
from millstream.formats.avro_types import branch_name, sql_type_of
from millstream.formats.library import compiled_formats
from millstream.formats.registered import PREFIX
from millstream.formats.registered_rows import Columns, ReadColumns, ResolvedSchema
from millstream.formats.wire_columns import (
    Finish,
    UnsupportedError,
    column_reader,
    columns_of_fields,
    ignored_column,
    list_column,
    map_column,
    plain_column,
    struct_column,
    symbol_column,
)
from millstream.model.physical import MAX_DECIMAL_PRECISION, arrow_type
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

NOTHING, BOOL, INT, LONG, FLOAT, DOUBLES, BYTE, TEXT, FIXED, SYMBOL = range(10)
TIMES, STAMP, DECIMAL, OPTIONAL, CHOICE, LIST, RECORD = range(10, 17)
"""`enum kind` of avro_read.c."""
_PLAIN: Mapping[str, tuple[int, SqlType]] = {
    "boolean": (BOOL, BOOLEAN),
    "int": (INT, INTEGER),
    "long": (LONG, BIGINT),
    "float": (FLOAT, DOUBLE),
    "double": (DOUBLES, DOUBLE),
    "bytes": (BYTE, BYTES),
    "string": (TEXT, STRING),
}
_LOGICAL: Mapping[str, tuple[int, SqlType]] = {
    "date": (INT, DATE),
    "time-millis": (TIMES, TIME),
    "timestamp-millis": (STAMP, TIMESTAMP),
}


@dataclass(slots=True)
class _Tree:
    """The nodes so far: kind, keep, size, digits, next."""

    nodes: list[list[int]] = field(default_factory=list)

    def add(self, kind: int, keep: bool, size: int = 0, digits: int = 0) -> int:
        """Add a node; `end` has to follow its children."""
        self.nodes.append([kind, int(keep), size, digits, 0])
        return len(self.nodes) - 1

    def end(self, node: int) -> None:
        """Note where a node's subtree ends."""
        self.nodes[node][4] = len(self.nodes)

    def leaf(self, kind: int, keep: bool, size: int = 0, digits: int = 0) -> int:
        """Add a node without children."""
        node = self.add(kind, keep, size, digits)
        self.end(node)
        return node


def compiled_reader(
    schema: ResolvedSchema, columns: Columns, wrapped: bool, wanted: tuple[int, ...]
) -> ReadColumns | None:
    """Reads the wanted columns of payloads with a schema; None where only `avro_read` can. It
    returns None for a batch for which there is not enough memory."""
    library = compiled_formats()
    return None if library is None else _reader(library, schema, columns, wrapped, wanted)


@lru_cache(maxsize=1_000)
def _reader(
    library: ctypes.CDLL,
    schema: ResolvedSchema,
    columns: Columns,
    wrapped: bool,
    wanted: tuple[int, ...],
) -> ReadColumns | None:
    tree = _Tree()
    try:
        parsed = parse_avro(schema.text, dict(schema.imported))
        finish = _columns(tree, parsed, columns, wrapped, wanted)
    except UnsupportedError:
        return None
    nodes = np.array(tree.nodes, np.int32)
    kinds = [arrow_type(columns[index][1]) for index in wanted]

    def call(data: int, offsets: int, rows: int, odd: int) -> int:
        at, count = nodes.ctypes.data, len(nodes)
        return int(library.ms_avro_read(data, offsets, rows, PREFIX, at, count, odd) or 0)

    return column_reader(library, call, finish, kinds)


def _columns(
    tree: _Tree, schema: AvroType, columns: Columns, wrapped: bool, wanted: tuple[int, ...]
) -> list[Finish | None]:
    """Add the nodes of a schema; what makes each of the wanted columns, None for one that the
    schema does not have."""
    if not wrapped:
        ((_, kind),) = columns
        made = _node(tree, schema, kind, keep=bool(wanted))
        return [made for _ in wanted]
    if not isinstance(schema, Record) or schema.is_entry:
        raise UnsupportedError
    keep = [index in wanted for index in range(len(columns))]
    found = _fields(tree, schema.fields, columns, keep)
    return [found[index] for index in wanted]


def _fields(
    tree: _Tree, fields: Sequence[AvroField], columns: Columns, keep: Sequence[bool]
) -> list[Finish | None]:
    """Add the nodes of fields in their order; what makes each column, in its order; None for one
    that there is not."""
    names = [each.name for each in fields if sql_type_of(each.type) is not None]
    sources = columns_of_fields(names, columns)
    found: list[Finish | None] = [None] * len(columns)
    for each in fields:
        index_of = sources.get(each.name)
        if index_of is None:
            _node(tree, each.type, None, keep=False)
        else:
            kind = columns[index_of][1]
            found[index_of] = _node(tree, each.type, kind, keep=keep[index_of])
    return found


def _node(tree: _Tree, schema: AvroType, wanted: SqlType | None, *, keep: bool) -> Finish:
    """Add the nodes of a type; what makes a column of them. `wanted`: the type that its values must
    have; None: any."""
    match schema:
        case Plain("null") if wanted is None:
            return ignored_column(tree.leaf(NOTHING, False))
        case Plain(name) if name in _PLAIN:
            kind, own = _PLAIN[name]
            widened = (own, wanted) == (INTEGER, BIGINT)
            if wanted not in (None, own) and not widened:
                raise UnsupportedError
            return plain_column(tree.leaf(kind, keep, int(widened)), wanted)
        case Fixed(_, size) if wanted in (None, BYTES) and size > 0:
            return plain_column(tree.leaf(FIXED, keep, size), wanted)
        case Logical():
            return _logical(tree, schema, wanted, keep=keep)
        case Enumeration(_, symbols) if wanted in (None, STRING):
            leaf = tree.leaf(SYMBOL, keep, len(symbols))
            return symbol_column(leaf, dict(enumerate(symbols)))
        case Union(branches):
            return _union(tree, branches, wanted, keep=keep)
        case Items(Record(is_entry=True) as entry) if wanted is None or isinstance(wanted, Map):
            if [each.name for each in entry.fields] != ["key", "value"]:
                raise UnsupportedError
            return _map(tree, entry.fields[0].type, entry.fields[1].type, wanted, keep=keep)
        case Values(value) if wanted is None or isinstance(wanted, Map):
            return _map(tree, Plain("string"), value, wanted, keep=keep)
        case Items(item) if wanted is None or isinstance(wanted, Array):
            return _list(tree, item, wanted, keep=keep)
        case Record(is_entry=False) if wanted is None or isinstance(wanted, Struct):
            return _record(tree, schema, wanted, keep=keep)
        case Recursion() | _:
            raise UnsupportedError


def _logical(tree: _Tree, schema: Logical, wanted: SqlType | None, *, keep: bool) -> Finish:
    if schema.name in _LOGICAL:
        # A time out of range is bad in a field that no column has, too, as in `avro_read`.
        kind, own = _LOGICAL[schema.name]
        if wanted not in (None, own):
            raise UnsupportedError
        return plain_column(tree.leaf(kind, keep), wanted)
    if wanted is None:
        return _node(tree, schema.of, None, keep=False)
    if not isinstance(wanted, Decimal) or wanted.scale != schema.scale:
        raise UnsupportedError
    if wanted.precision > MAX_DECIMAL_PRECISION:
        raise UnsupportedError
    size = schema.of.size if isinstance(schema.of, Fixed) else 0
    if isinstance(schema.of, Fixed) and size == 0:
        raise UnsupportedError
    return plain_column(tree.leaf(DECIMAL, keep, size, wanted.precision), wanted)


def _union(
    tree: _Tree, branches: tuple[AvroType, ...], wanted: SqlType | None, *, keep: bool
) -> Finish:
    others = [branch for branch in branches if branch != Plain("null")]
    if len(others) == 1 and len(branches) <= 2:
        null = branches.index(Plain("null")) if len(branches) == 2 else -1
        node = tree.add(OPTIONAL, keep, null)
        made = _node(tree, others[0], wanted, keep=keep)
        tree.end(node)
        return made
    null = branches.index(Plain("null")) if len(others) < len(branches) else -1
    alternatives = [AvroField(branch_name(branch), branch) for branch in branches]
    if len({each.name for each in alternatives}) < len(branches):
        raise UnsupportedError
    if wanted is not None and not isinstance(wanted, Struct):
        raise UnsupportedError
    fields = wanted.fields if wanted is not None else ()
    columns = tuple((each.name, each.type) for each in fields)
    node = tree.add(CHOICE, keep, len(branches), null)
    members = _fields(tree, alternatives, columns, [keep] * len(columns))
    tree.end(node)
    return ignored_column(node) if wanted is None else struct_column(node, wanted, members)


def _list(tree: _Tree, item: AvroType, wanted: SqlType | None, *, keep: bool) -> Finish:
    if not _has_bytes(item):
        raise UnsupportedError
    node = tree.add(LIST, keep)
    element = wanted.element if isinstance(wanted, Array) else None
    inner = _node(tree, item, element, keep=keep)
    tree.end(node)
    return list_column(node, wanted, inner)


def _map(
    tree: _Tree, key: AvroType, value: AvroType, wanted: SqlType | None, *, keep: bool
) -> Finish:
    """A list of entries with different keys."""
    member = wanted.value if isinstance(wanted, Map) else None
    if isinstance(wanted, Map) and wanted.key != STRING:
        raise UnsupportedError
    node = tree.add(LIST, keep, 1)
    entry = tree.add(RECORD, keep)
    keys = _node(tree, key, STRING, keep=keep)
    if tree.nodes[entry + 1][0] not in (TEXT, OPTIONAL):
        raise UnsupportedError
    values = _node(tree, value, member, keep=keep)
    tree.end(entry)
    tree.end(node)
    return map_column(node, wanted, keys, values)


def _record(tree: _Tree, schema: Record, wanted: SqlType | None, *, keep: bool) -> Finish:
    fields = wanted.fields if isinstance(wanted, Struct) else ()
    columns = tuple((each.name, each.type) for each in fields)
    node = tree.add(RECORD, keep)
    members = _fields(tree, schema.fields, columns, [keep] * len(columns))
    tree.end(node)
    return struct_column(node, wanted, members)


def _has_bytes(schema: AvroType) -> bool:
    """Whether each value of a type has at least one byte: of others, a payload may claim any
    number."""
    match schema:
        case Plain(name):
            return name != "null"
        case Fixed(_, size):
            return size > 0
        case Logical(of):
            return _has_bytes(of)
        case Record(_, fields):
            return any(_has_bytes(each.type) for each in fields)
        case _:
            return True

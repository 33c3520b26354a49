"""Reads PROTOBUF by columns, in compiled code, where the columns have the types of the message.

What a message has becomes a tree of nodes in preorder. Payloads that are no such message, or are
written as is seldom done, are left to `proto_read`, which says why, or reads them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa

from millstream.formats.library import compiled_formats
from millstream.formats.proto_types import (
    SCALARS,
    Enumerated,
    Known,
    Label,
    MapOf,
    Message,
    ProtoField,
    ProtoType,
    Scalar,
    Wrapper,
    sql_type_of,
)
from millstream.formats.registered_rows import Columns, ReadColumns
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
    DATE,
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

INT32, UINT32, INT64, SINT32, SINT64, BOOL, FLOAT, DOUBLES, ENUM, FIXED32, SFIXED32, FIXED64 = (
    range(12)
)
TEXT, BYTE, DATES, TIMES, STAMP, DECIMAL, LIST, MESSAGE, SKIPPED = range(12, 21)
"""`enum kind` of proto_read.c."""
_SCALARS: Mapping[str, int] = {
    "int32": INT32,
    "uint32": UINT32,
    "int64": INT64,
    "uint64": INT64,
    "sint32": SINT32,
    "sint64": SINT64,
    "bool": BOOL,
    "float": FLOAT,
    "double": DOUBLES,
    "fixed32": FIXED32,
    "sfixed32": SFIXED32,
    "fixed64": FIXED64,
    "sfixed64": FIXED64,
    "string": TEXT,
    "bytes": BYTE,
}
_KNOWN: Mapping[SqlType, int] = {DATE: DATES, TIME: TIMES, TIMESTAMP: STAMP}
_CHOICES_MAX = 63
"""The alternatives of a message that compiled code tells apart."""


@dataclass(slots=True)
class _Node:
    """`struct node` of proto_read.c."""

    kind: int
    keep: bool
    number: int = 0
    optional: bool = False
    wrapped: bool = False
    choice: int = 0
    size: int = 0
    digits: int = 0
    first: int = 0
    fields: int = 0
    next: int = 0

    def row(self) -> list[int]:
        """Its numbers, in the order of the struct."""
        return [int(getattr(self, name)) for name in self.__slots__]


@dataclass(slots=True)
class _Tree:
    """The nodes so far, and the fields of messages: each one's number and node."""

    nodes: list[_Node] = field(default_factory=list)
    fields: list[tuple[int, int]] = field(default_factory=list)

    def add(self, node: _Node) -> int:
        """Add a node; `end` has to follow its children."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def end(self, node: int) -> None:
        """Note where a node's subtree ends."""
        self.nodes[node].next = len(self.nodes)

    def leaf(self, node: _Node) -> int:
        """Add a node without children."""
        place = self.add(node)
        self.end(place)
        return place


def compiled_reader(
    message: Message, columns: Columns, wanted: tuple[int, ...], skip: int, lead: bytes
) -> ReadColumns | None:
    """Reads the wanted columns of payloads, which have `skip` bytes and those of `lead` before a
    message; None where only `proto_read` can. It returns None for a batch for which there is not
    enough memory."""
    library = compiled_formats()
    return None if library is None else _reader(library, message, columns, wanted, skip, lead)


@lru_cache(maxsize=1_000)
def _reader(
    library: ctypes.CDLL,
    message: Message,
    columns: Columns,
    wanted: tuple[int, ...],
    skip: int,
    lead: bytes,
) -> ReadColumns | None:
    tree = _Tree()
    try:
        keep = [index in wanted for index in range(len(columns))]
        _, found = _message(tree, _Node(MESSAGE, True), message, columns, keep)
    except UnsupportedError:
        return None
    finish = [found[index] for index in wanted]
    nodes = np.array([node.row() for node in tree.nodes], np.int32)
    fields = np.array([*tree.fields, (0, 0)], np.int32)
    kinds = [arrow_type(columns[index][1]) for index in wanted]

    def call(data: int, offsets: int, rows: int, odd: int) -> int:
        given = data, offsets, rows, skip, lead, len(lead)
        message_nodes = nodes.ctypes.data, len(nodes), fields.ctypes.data, len(tree.fields)
        return int(library.ms_proto_read(*given, *message_nodes, odd) or 0)

    return column_reader(library, call, finish, kinds)


def _message(
    tree: _Tree, node: _Node, message: Message, columns: Columns, keep: Sequence[bool]
) -> tuple[int, list[Finish | None]]:
    """Add the node of a message and those of its fields; its place, and what makes each column;
    None for one that there is not."""
    place = tree.add(node)
    known = [each for each in message.fields if sql_type_of(each.type, each.label) is not None]
    # One that no column can have is still an alternative to others.
    fields = [each for each in message.fields if each in known or each.choice]
    columns_of = columns_of_fields([each.name for each in known], columns)
    choices = list(dict.fromkeys(each.choice for each in fields if each.choice))
    if len({each.number for each in fields}) < len(fields) or len(choices) > _CHOICES_MAX:
        raise UnsupportedError
    found: list[Finish | None] = [None] * len(columns)
    numbered = []
    for each in fields:
        choice = choices.index(each.choice) + 1 if each.choice else 0
        index = columns_of.get(each.name)
        numbered.append((each.number, len(tree.nodes)))
        if each not in known:
            tree.leaf(_Node(SKIPPED, False, each.number, choice=choice))
        elif index is None:
            _field(tree, each, None, choice, keep=False)
        else:
            found[index] = _field(tree, each, columns[index][1], choice, keep=keep[index])
    node.first, node.fields = len(tree.fields), len(numbered)
    tree.fields += sorted(numbered)
    tree.end(place)
    return place, found


def _field(
    tree: _Tree, given: ProtoField, wanted: SqlType | None, choice: int, *, keep: bool
) -> Finish:
    """Add the nodes of a field; what makes its column. `wanted`: the type that its values must
    have; None: any."""
    if isinstance(given.type, MapOf):
        return _map(tree, given.number, given.type, wanted, keep=keep)
    if given.label is Label.REPEATED:
        if not isinstance(wanted, Array | None):
            raise UnsupportedError
        node = tree.add(_Node(LIST, keep, given.number))
        element = wanted.element if isinstance(wanted, Array) else None
        item = _value(tree, given.type, _Node(-1, keep), element)
        tree.end(node)
        return list_column(node, wanted, item)
    optional = given.label is Label.OPTIONAL
    return _value(tree, given.type, _Node(-1, keep, given.number, optional, choice=choice), wanted)


def _map(tree: _Tree, number: int, given: MapOf, wanted: SqlType | None, *, keep: bool) -> Finish:
    """A list of messages with different keys."""
    if not isinstance(wanted, Map | None) or (wanted is not None and wanted.key != STRING):
        raise UnsupportedError
    if given.key.name in ("float", "double", "bytes"):
        raise UnsupportedError
    entry = Message("", (ProtoField(1, "key", given.key), ProtoField(2, "value", given.value)))
    member = wanted.value if wanted is not None else sql_type_of(given.value)
    assert member is not None
    columns = (("key", SCALARS[given.key.name]), ("value", member))
    node = tree.add(_Node(LIST, keep, number, size=1))
    _, (key, value) = _message(tree, _Node(MESSAGE, keep), entry, columns, [keep, keep])
    tree.end(node)
    assert key is not None and value is not None
    return map_column(node, wanted, lambda read: key(read).cast(pa.string()), value)


def _value(tree: _Tree, given: ProtoType, node: _Node, wanted: SqlType | None) -> Finish:
    """Add the nodes of a value that is not repeated; `node` is what is known of the first."""
    own = sql_type_of(given)
    if isinstance(given, Message):
        return _struct(tree, given, node, wanted)
    if wanted not in (None, own) and not isinstance(wanted, Decimal):
        if (own, wanted) != (INTEGER, BIGINT):
            raise UnsupportedError
        node.size = 1
    match given:
        case Scalar(name):
            node.kind = _SCALARS[name]
        case Wrapper(Scalar(name)):
            node.kind, node.wrapped = _SCALARS[name], True
        case Enumerated(names):
            node.kind = ENUM
            return symbol_column(tree.leaf(node), dict(names))
        case Known(Decimal() as known):
            kind = known if wanted is None else wanted
            if not isinstance(kind, Decimal):
                raise UnsupportedError
            digits = min(kind.precision, MAX_DECIMAL_PRECISION)
            node.kind, node.size, node.digits = DECIMAL, kind.scale, digits
        case Known(known) if wanted in (None, known):
            node.kind = _KNOWN[known]
        case _:
            raise UnsupportedError
    if isinstance(wanted, Decimal) and node.kind != DECIMAL:
        raise UnsupportedError
    return plain_column(tree.leaf(node), wanted)


def _struct(tree: _Tree, given: Message, node: _Node, wanted: SqlType | None) -> Finish:
    if not isinstance(wanted, Struct | None):
        raise UnsupportedError
    node.kind = MESSAGE
    fields = wanted.fields if wanted is not None else ()
    columns = tuple((each.name, each.type) for each in fields)
    place, members = _message(tree, node, given, columns, [node.keep] * len(columns))
    return ignored_column(place) if wanted is None else struct_column(place, wanted, members)

"""Protobuf read and written by columns in compiled code is that of one by one."""

from __future__ import annotations

import decimal
import random
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from millstream.formats.conversion import columns_from
from millstream.formats.library import compiled_formats
from millstream.formats.payload import Layout, Read, Subject
from millstream.formats.proto_read import message_reader
from millstream.formats.proto_read_columns import compiled_reader
from millstream.formats.proto_schema import parse_proto
from millstream.formats.proto_types import (
    SCALARS,
    Enumerated,
    Known,
    Label,
    MapOf,
    Message,
    ProtoField,
    ProtoType,
    Recursion,
    Scalar,
    Wrapper,
    sql_type_of,
)
from millstream.formats.proto_write import message_writer
from millstream.formats.proto_write_columns import compiled_writer
from millstream.formats.protobuf import read_columns, read_values
from millstream.formats.protobuf_wire import delimited, tag, varint
from millstream.formats.registered import prefix_of
from millstream.formats.registered_rows import (
    Columns,
    read_by_schema,
    read_mostly_by_columns,
    write_mostly_by_columns,
)
from millstream.formats.schema_error import SchemaError
from millstream.log.embedded import EmbeddedLog
from millstream.model.physical import arrow_type
from millstream.model.python_values import counted
from millstream.model.schema import Column, Role
from millstream.model.schema_text import SchemaText
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
    Field,
    Map,
    SqlType,
    Struct,
)
from millstream.schemas.embedded import EmbeddedRegistry

needs_library = pytest.mark.skipif(compiled_formats() is None, reason="it was not built")
ENUM = Enumerated(((0, "ZERO"), (1, "ONE"), (1, "ALSO"), (-3, "LESS")))
KNOWN = (DATE, TIME, TIMESTAMP, Decimal(6, 2), Decimal(38, 0))
SEEDS = range(20)
EACH = 40
"""The messages of a seed."""


def a_message(rng: random.Random, depth: int = 0) -> Message:
    """A message with fields of any kinds."""
    numbers = rng.sample([*range(1, 20), 1_000, 2**29 - 1], rng.randint(1, 6))
    return Message(f"M{depth}", tuple(a_field(rng, number, depth) for number in numbers))


def a_field(rng: random.Random, number: int, depth: int) -> ProtoField:
    name = f"f{number}"
    if rng.random() < 0.1:
        key = Scalar(rng.choice([name for name in SCALARS if name != "bytes"]))
        return ProtoField(number, name, MapOf(key, a_type(rng, depth)))
    kind = a_type(rng, depth)
    label = rng.choice([Label.SINGULAR, Label.SINGULAR, Label.OPTIONAL, Label.REPEATED])
    if label is not Label.REPEATED and rng.random() < 0.2:
        return ProtoField(number, name, kind, Label.OPTIONAL, rng.choice(["one", "other"]))
    return ProtoField(number, name, kind, label)


def a_type(rng: random.Random, depth: int) -> ProtoType:
    drawn = rng.random()
    if drawn < 0.55 or depth > 2:
        return Scalar(rng.choice([*SCALARS]))
    if drawn < 0.65:
        return ENUM
    if drawn < 0.75:
        return Wrapper(Scalar(rng.choice([*SCALARS])))
    if drawn < 0.87:
        return Known(rng.choice(KNOWN))
    return Recursion("M0") if drawn < 0.9 else a_message(rng, depth + 1)


def written(rng: random.Random, message: Message) -> bytes:
    """Bytes of a message: its fields in any order, some of them several times."""
    parts = []
    for field in rng.sample(message.fields, rng.randint(0, len(message.fields))):
        many = field.label is Label.REPEATED or isinstance(field.type, MapOf)
        for _ in range(rng.choice([1, 1, 1, 2]) if not many else rng.randint(0, 4)):
            parts.append(occurrence(rng, field, packed=many and rng.random() < 0.5))
    if rng.random() < 0.3:
        rng.shuffle(parts)
    if rng.random() < 0.05:
        parts.append(delimited(19_999, b"unknown"))
    return b"".join(parts)


def occurrence(rng: random.Random, field: ProtoField, *, packed: bool) -> bytes:
    kind = field.type
    if packed and isinstance(kind, Scalar | Enumerated) and kind.__class__ is not Enumerated:
        if kind.name in ("string", "bytes"):
            return single(rng, field.number, kind)
        skip = len(tag(1, 0))
        values = [single(rng, 1, kind)[skip:] for _ in range(rng.randint(0, 4))]
        return delimited(field.number, b"".join(values))
    return single(rng, field.number, kind)


def single(rng: random.Random, number: int, kind: ProtoType) -> bytes:
    match kind:
        case Scalar(name):
            return scalar(rng, number, name)
        case Enumerated():
            return tag(number, 0) + varint(rng.choice([0, 1, -3, 7]))
        case Wrapper(of):
            inner = [single(rng, 1, of) for _ in range(rng.choice([0, 1, 1, 2]))]
            return delimited(number, b"".join(inner))
        case Known(Decimal()):
            digits = rng.randbytes(rng.choice([0, 1, 2, 3, 16, 18]))
            scale = rng.choice([0, 2, 2, 3])
            return delimited(number, delimited(1, digits) + tag(3, 0) + varint(scale))
        case Known():
            sizes = rng.choice([(2_000, 12, 28, 9), (23, 59, 59, 999_999_999), (2**31, -1, 99, -5)])
            parts = enumerate(sizes, 1)
            some = [tag(n, 0) + varint(rng.randint(*sorted((0, size)))) for n, size in parts]
            return delimited(number, b"".join(rng.sample(some, rng.randint(0, 4))))
        case MapOf(key, value):
            entry = [single(rng, 1, key), single(rng, 2, value)]
            return delimited(number, b"".join(rng.sample(entry, rng.choice([0, 1, 2, 2, 2]))))
        case Message():
            return delimited(number, written(rng, kind))
    return delimited(number, b"within itself")


def scalar(rng: random.Random, number: int, name: str) -> bytes:
    match name:
        case "string":
            return delimited(number, "".join(rng.choices("aé√😀", k=rng.randint(0, 3))).encode())
        case "bytes":
            return delimited(number, rng.randbytes(rng.randint(0, 4)))
        case "double":
            return tag(number, 1) + struct.pack("<d", rng.choice([0.0, -0.0, rng.random(), 1e300]))
        case "float":
            return tag(number, 5) + struct.pack("<f", rng.choice([0.0, rng.random(), 1e30]))
    if "fixed" in name:
        wide = name.endswith("64")
        return tag(number, 1 if wide else 5) + rng.randbytes(8 if wide else 4)
    return tag(number, 0) + varint(rng.choice([0, 1, 2, 300, -1, -(2**31), 2**31, 2**63 - 1]))


def broken(rng: random.Random, content: bytes) -> bytes:
    """The bytes, or some that are changed or cut off."""
    changed = bytearray(content)
    if changed and rng.random() < 0.2:
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    if rng.random() < 0.05:
        del changed[rng.randint(0, len(changed)) :]
    return bytes(changed)


def varied(rng: random.Random, kind: SqlType) -> SqlType:
    """A type, or another one that a column may have instead."""
    match kind:
        case Array(element):
            return Array(varied(rng, element))
        case Map(key, member):
            return Map(key, varied(rng, member))
        case Struct(fields):
            kept = [field for field in fields if rng.random() < 0.9] or list(fields)
            made = tuple(Field(each.name.upper(), varied(rng, each.type)) for each in kept)
            return Struct((*made, Field("MORE", INTEGER)) if rng.random() < 0.1 else made)
        case Decimal(precision, scale):
            return Decimal(precision, max(0, scale - 1)) if rng.random() < 0.05 else kind
    if kind == INTEGER and rng.random() < 0.2:
        return BIGINT
    return STRING if kind in (INTEGER, BOOLEAN) and rng.random() < 0.02 else kind


def shown(found: Read) -> str:
    columns = [counted(column).to_pylist() for column in found.columns]
    assert all(column.validate(full=True) is None for column in found.columns)
    for row in found.bad:
        for column in columns:
            column[row] = "bad"
    return repr((columns, sorted(found.bad.items())))


def layout_of(columns: Columns, wanted: tuple[int, ...], **more: Any) -> Layout:
    return Layout(tuple(Column(name, kind, Role.VALUE) for name, kind in columns), wanted, **more)


@needs_library
@pytest.mark.parametrize("seed", SEEDS)
def test_it_reads_what_is_read_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(EACH):
        message = a_message(rng)
        kind = sql_type_of(message)
        if not isinstance(kind, Struct):
            continue
        columns = tuple((each.name, varied(rng, each.type)) for each in kind.fields)
        wanted = tuple(index for index in range(len(columns)) if rng.random() < 0.8)
        payloads = [broken(rng, written(rng, message)) for _ in range(rng.randint(1, 8))]
        given = [None if rng.random() < 0.1 else each for each in payloads]
        sliced = pa.array([b"before", *given, b"after"], pa.binary())[1:-1]
        read, convert = message_reader(message), columns_from(kind, columns, wrapped=True)

        def values(content: bytes, read: Any = read, convert: Any = convert) -> Sequence[Any]:
            return list(convert(read(content)))

        arguments = sliced, layout_of(columns, wanted)
        compiled = compiled_reader(message, columns, wanted, 0, b"")
        by_columns = read_mostly_by_columns(*arguments, compiled, values)
        one_by_one = read_mostly_by_columns(*arguments, None, values)
        assert shown(by_columns) == shown(one_by_one), (message, columns, wanted, given)


def a_value(rng: random.Random, kind: SqlType) -> Any:
    """A value of a column, or NULL."""
    if rng.random() < 0.1:
        return None
    match kind:
        case Array(element):
            return [a_value(rng, element) for _ in range(rng.randint(0, 3))]
        case Map(_, member):
            return [(key, a_value(rng, member)) for key in rng.sample("abc", rng.randint(0, 3))]
        case Struct(fields):
            return {each.name: a_value(rng, each.type) for each in fields}
        case Decimal(precision, scale):
            digits = rng.choice(
                [0, 1, -1, 127, -128, -129, 10**precision - 1, -(10**precision) + 1]
            )
            return decimal.Decimal(digits).scaleb(-scale, decimal.Context(prec=50))
    choices: dict[SqlType, list[Any]] = {
        INTEGER: [0, 1, -1, 127, 128, 2**31 - 1, -(2**31)],
        BIGINT: [0, 1, -1, 2**32 - 1, 2**32, 2**63 - 1, -(2**63)],
        BOOLEAN: [True, False],
        STRING: ["", "a", "ZERO", "ALSO", "ONE", "LESS", "é" * 100],
        DATE: [0, -1, 20_000, 2**31 - 1, -(2**31)],
        TIME: [0, 1, 86_399_999_999],
        TIMESTAMP: [0, -1, 1, 1_700_000_000_123_456, 2**63 - 1, -(2**63)],
    }
    found = choices.get(kind)
    if found is not None:
        return rng.choice(found)
    return rng.choice([b"", b"abc"] if kind == BYTES else [0.0, -0.0, 1.5, 1e300, 1e-300])


@needs_library
@pytest.mark.parametrize("seed", SEEDS)
def test_it_writes_what_is_written_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(EACH):
        message = a_message(rng)
        kind = sql_type_of(message)
        if not isinstance(kind, Struct):
            continue
        fields = rng.sample(kind.fields, rng.randint(1, len(kind.fields)))
        columns = tuple((each.name.upper(), each.type) for each in fields)
        rows = rng.randint(1, 8)
        start = rng.randint(0, 2)
        arrays = [
            pa.array([a_value(rng, of) for _ in range(start + rows)], arrow_type(of))[start:]
            for _, of in columns
        ]
        compiled = compiled_writer(message, columns, b"")
        try:
            write = message_writer(message, columns)
        except SchemaError:
            assert compiled is None
            continue

        def append(values: Sequence[Any], out: bytearray, write: Any = write) -> None:
            out += write(values)

        arguments = arrays, layout_of(columns, ()), b"before"
        by_columns = write_mostly_by_columns(*arguments, compiled, append)
        one_by_one = write_mostly_by_columns(*arguments, None, append)
        assert by_columns.payload.to_pylist() == one_by_one.payload.to_pylist(), (message, columns)
        assert dict(by_columns.bad) == dict(one_by_one.bad), (message, columns)


TEXT = """
syntax = "proto3"; package shop; import "google/protobuf/wrappers.proto";
message Other { int32 x = 1; }
message Order {
  int64 id = 1; repeated sint32 counts = 2; map<string, Line> lines = 3; Kind kind = 4;
  google.protobuf.StringValue note = 5; Line line = 6; oneof one { Order within = 7; bool b = 8; }
  enum Kind { NEW = 0; OLD = 1; }
}
message Line { string name = 1; double price = 2; }
"""
LINE = Struct((Field("name", STRING), Field("price", DOUBLE)))
ORDER: Columns = (
    ("ID", BIGINT),
    ("COUNTS", Array(INTEGER)),
    ("LINES", Map(STRING, LINE)),
    ("KIND", STRING),
    ("NOTE", STRING),
    ("LINE", LINE),
    ("B", BOOLEAN),
)


@needs_library
def test_the_types_that_are_compiled() -> None:
    """Without this, all would be read one by one and nobody would notice."""
    message = parse_proto(TEXT).messages[1]
    compiled = compiled_reader(message, ORDER, tuple(range(len(ORDER))), 0, b"")
    writer = compiled_writer(message, ORDER, b"")
    assert compiled is not None and writer is not None
    rows = [[1, [1, -2], [("k", {"name": "n", "price": 0.5})], "OLD", "t", None, None]]
    rows += [[0, [], [], "NEW", None, {"name": "", "price": 0.0}, False]]
    arrays = [
        pa.array(values, arrow_type(kind))
        for values, (_, kind) in zip(zip(*rows, strict=True), ORDER, strict=True)
    ]
    payload, odd = writer(arrays, b"")  # type: ignore[misc]
    assert not len(odd)
    found, left = compiled(payload)  # type: ignore[misc]
    assert [
        list(row) for row in zip(*(column.to_pylist() for column in found), strict=True)
    ] == rows
    assert not len(left)
    assert compiled_reader(message, (("ID", STRING),), (0,), 0, b"") is None
    assert compiled_writer(message, (("KIND", INTEGER),), b"") is None


@needs_library
@pytest.mark.parametrize("lead", [b"\2\2", b"\2\x82\0"], ids=["shortest", "longer"])
def test_messages_of_several_kinds_and_bad_ones_keep_their_places(lead: bytes) -> None:
    """`lead`: the number of the second message, in two forms."""
    schemas = EmbeddedRegistry(EmbeddedLog.open(":memory:"), "schemas", lambda: 0)
    ids = [schemas.register(name, SchemaText("PROTOBUF", f"{TEXT} // {name}")).id for name in "ab"]
    contents: list[bytes | None] = [
        prefix_of(ids[n % 2]) + lead + tag(1, 0) + varint(n) for n in range(20)
    ]
    contents[3], contents[7], contents[8] = None, prefix_of(ids[1]), b"\1"
    contents[9] = prefix_of(ids[0]) + b"\0" + tag(1, 0) + varint(5)
    contents[0] = prefix_of(ids[0]) + b"\2\x10"
    columns = (("ID", BIGINT),)
    subject = Subject(schemas, "s", "S", is_key=False)
    arguments = pa.array(contents, pa.binary()), layout_of(columns, (0,), subject=subject)
    found = [
        read_by_schema(*arguments, "PROTOBUF", read_values, *more) for more in ((read_columns,), ())
    ]
    assert shown(found[0]) == shown(found[1])
    expected = [None if n == 3 else "bad" if n in (0, 7, 8) else n for n in range(20)]
    # The first message has no such field.
    expected[9] = None
    assert found[0].columns[0].to_pylist() == [None if e == "bad" else e for e in expected]
    assert sorted(found[0].bad) == [0, 7, 8]

"""Protobuf's language and encoding, compared with protoc and Google's library."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats.proto_read import message_reader
from millstream.formats.proto_schema import parse_proto
from millstream.formats.proto_types import SCALARS as KINDS
from millstream.formats.proto_types import message_of, proto_text, sql_type_of
from millstream.formats.proto_write import message_writer
from millstream.formats.protobuf import protobuf_type, read_values, write_values
from millstream.formats.protobuf_wire import delimited, tag, varint
from millstream.formats.registered import prefix_of
from millstream.formats.registered_rows import ResolvedSchema
from millstream.formats.schema_error import SchemaError
from millstream.model.errors import RecordError
from millstream.model.java_time import days_from_civil
from millstream.model.physical import arrow_type
from millstream.model.types import (
    BIGINT,
    INTEGER,
    STRING,
    Array,
    Field,
    Map,
    Struct,
)
from tests.conformance.messages import messages_of
from tests.draws import draws
from tests.unit.formats.columns import COLUMNS

SCALARS = """
syntax = "proto3"; package shop;
message All {
  double a = 1; float b = 2; int32 c = 3; int64 d = 4; uint32 e = 5; uint64 f = 6;
  sint32 g = 7; sint64 h = 8; fixed32 i = 9; fixed64 j = 10; sfixed32 k = 11; sfixed64 l = 12;
  bool m = 13; string n = 14; bytes o = 15; Suit p = 16;
  repeated sint32 q = 17; repeated double r = 18; repeated string s = 19; repeated Suit t = 20;
  map<string, int64> u = 21; map<int32, Inner> v = 22; Inner w = 23; optional int32 x = 24;
  oneof choice { int32 y = 25; Inner z = 26; }
  repeated fixed32 aa = 27 [packed = false];
  enum Suit { SPADES = 0; HEARTS = 1; CLUBS = -3; }
  message Inner { string text = 1; repeated Inner within = 2; }
}
"""
I32, I64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
U32, U63 = st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 1)
FLOATS, TEXTS = st.floats(allow_nan=False), st.text(st.characters(codec="utf-8"), max_size=4)
SUITS = st.sampled_from([0, 1, -3])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": FLOATS, "b": st.floats(width=32, allow_nan=False), "c": I32, "d": I64, "e": U32, "f": U63,
    "g": I32, "h": I64, "i": U32, "j": U63, "k": I32, "l": I64,
    "m": st.booleans(), "n": TEXTS, "o": st.binary(max_size=4), "p": SUITS,
    "q": st.lists(I32, max_size=3), "r": st.lists(FLOATS, max_size=3),
    "s": st.lists(TEXTS, max_size=3), "t": st.lists(SUITS, max_size=3),
    "x": I32, "y": I32, "aa": st.lists(U32, max_size=3),
}  # fmt: skip
NAMES = {0: "SPADES", 1: "HEARTS", -3: "CLUBS"}
(ALL,) = messages_of(SCALARS, ())


def message(values: dict[str, Any], entries: dict[str, int], texts: dict[int, str]) -> Any:
    made = message_factory.GetMessageClass(ALL)(**values)
    made.u.update(entries)
    for key, text in texts.items():
        made.v[key].text = text
    return made


def expected(values: dict[str, Any], entries: dict[str, int], texts: dict[int, str]) -> Any:
    zeros = dict.fromkeys("abcdefghijkl", 0) | {"m": False, "n": "", "o": b"", "p": "SPADES"}
    found: dict[str, Any] = zeros | {"q": [], "r": [], "s": [], "t": [], "x": None, "y": None}
    found |= {"aa": [], "w": None, "z": None} | values
    if "p" in values:
        found["p"] = NAMES[values["p"]]
    found["t"] = [NAMES[each] for each in found["t"]]
    found["u"] = sorted(entries.items())
    found["v"] = sorted((str(key), {"text": text}) for key, text in texts.items())
    return found


DRAWN = (
    st.fixed_dictionaries({}, optional=VALUES),
    st.dictionaries(TEXTS, I64, max_size=3),
    st.dictionaries(I32, TEXTS, max_size=3),
)


@settings(max_examples=draws(300), deadline=None)
@given(*DRAWN)
def test_what_google_writes_is_read(
    values: dict[str, Any], entries: dict[str, int], texts: dict[int, str]
) -> None:
    file = parse_proto(SCALARS)
    found = message_reader(file.messages[0])(message(values, entries, texts).SerializeToString())
    found["u"], found["v"] = sorted(found["u"]), sorted(found["v"], key=lambda pair: pair[0])
    assert found == expected(values, entries, texts)


@settings(max_examples=draws(300), deadline=None)
@given(DRAWN[0])
def test_google_reads_what_is_written(values: dict[str, Any]) -> None:
    file = parse_proto(SCALARS)
    kind = sql_type_of(file.messages[0])
    assert isinstance(kind, Struct)
    columns = [(f.name, f.type) for f in kind.fields if f.name in values]
    given_values = {
        name: NAMES[each] if name == "p" else [NAMES[n] for n in each] if name == "t" else each
        for name, each in values.items()
    }
    content = message_writer(file.messages[0], columns)([given_values[n] for n, _ in columns])
    assert message_factory.GetMessageClass(ALL).FromString(content) == message(values, {}, {})


MERGED = """
syntax = "proto3"; import "google/protobuf/wrappers.proto"; import "google/type/date.proto";
message M {
  Inner a = 1; google.protobuf.Int32Value b = 2; google.type.Date c = 3;
  oneof one { int32 d = 4; string e = 5; M f = 6; }
  map<string, Inner> g = 7;
  message Inner { int32 x = 1; string y = 2; repeated int32 z = 3; }
}
"""


@settings(max_examples=draws(200), deadline=None)
@given(st.lists(st.integers(0, 9), max_size=8), st.data())
def test_what_is_there_twice_is_as_google_reads_it(drawn: list[int], data: st.DataObject) -> None:
    """Messages are merged, and of alternatives the last one counts."""
    small = st.integers(0, 2)

    def inner() -> bytes:
        parts = [tag(1, 0) + varint(1 + data.draw(small)), delimited(2, b"t"), delimited(3, b"\5")]
        return b"".join(part for part in parts if data.draw(st.booleans()))

    makes = [
        *(lambda: delimited(1, inner()), lambda: delimited(2, tag(1, 0) + b"\7")),
        lambda: delimited(2, b""),
        lambda: delimited(3, tag(1 + data.draw(small), 0) + b"\3"),
        lambda: tag(4, 0) + b"\1",
        lambda: delimited(5, b"text"),
        lambda: delimited(6, tag(4, 0) + b"\2"),
        lambda: delimited(7, delimited(1, b"k") + delimited(2, inner())),
        lambda: delimited(7, delimited(1, b"l") + delimited(2, inner()) + delimited(2, inner())),
        lambda: delimited(99, b"unknown"),
    ]
    content = b"".join(makes[number]() for number in drawn)
    (known,) = messages_of(MERGED, ())
    theirs = message_factory.GetMessageClass(known).FromString(content)
    found = message_reader(parse_proto(MERGED).messages[0])(content)

    def of_inner(given: Any) -> dict[str, Any]:
        return {"x": given.x, "y": given.y, "z": list(given.z)}

    chosen = theirs.WhichOneof("one")
    assert found["a"] == (of_inner(theirs.a) if theirs.HasField("a") else None)
    assert found["b"] == (theirs.b.value if theirs.HasField("b") else None)
    if theirs.HasField("c"):
        month, day = theirs.c.month or 1, theirs.c.day or 1
        assert found["c"] == days_from_civil(theirs.c.year, month, day)
    assert found["d"] == (theirs.d if chosen == "d" else None)
    assert found["e"] == (theirs.e if chosen == "e" else None)
    assert dict(found["g"]) == {key: of_inner(value) for key, value in theirs.g.items()}


@pytest.mark.parametrize("nulls", ["", "OPTIONAL", "WRAPPER"])
def test_the_schema_of_columns_is_read_as_them(nulls: str) -> None:
    made = message_of(COLUMNS, "my.space.Root", {"nullableRepresentation": nulls})
    text = proto_text(made)
    (read,) = parse_proto(text).messages
    assert sql_type_of(read) == Struct(tuple(Field(*column) for column in COLUMNS))
    (known,) = messages_of(text, ())
    assert known.full_name == "my.space.Root"
    assert [field.number for field in known.fields] == list(range(1, len(COLUMNS) + 1))
    zero = {None} if nulls else {False, "", b""}
    found = message_reader(read)(b"")
    assert {found[name] for name in ("B", "I", "L", "D", "S", "Y")} == zero


def test_the_message_that_a_payload_is() -> None:
    text = 'syntax = "proto3"; message A { int32 x = 1; message C { string z = 1; } }'
    text += " message B { string x = 1; }"
    columns = (("X", STRING),)
    chosen = ResolvedSchema("PROTOBUF", text, chosen="B")
    out = bytearray(prefix_of(7))
    write_values(chosen, columns, True)(["t"], out)
    assert bytes(out[5:7]) == b"\2\2", "one number leads there: the second message"
    read = read_values(ResolvedSchema("PROTOBUF", text), columns, True)
    assert read(bytes(out)) == ["t"]
    first = bytearray(prefix_of(7))
    write_values(ResolvedSchema("PROTOBUF", text), (("X", INTEGER),), True)([5], first)
    assert first[5] == 0
    assert read(bytes(first)) == ["5"], "as text, because the column is one"
    assert protobuf_type(ResolvedSchema("PROTOBUF", text, chosen="A.C")) == Struct(
        (Field("z", STRING),)
    )
    for broken in (b"", b"\2", b"\2\x10\0", b"\4\0", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"):
        with pytest.raises(RecordError):
            read(prefix_of(7) + broken)


def test_types_that_double_at_each_name_are_refused() -> None:
    lines = ['syntax = "proto3"; message R0 { int32 x = 1; }']
    lines += [f"message R{n} {{ R{n - 1} a = 1; R{n - 1} b = 2; }}" for n in range(1, 40)]
    with pytest.raises(SchemaError, match="more than 10000 types"):
        parse_proto("\n".join(lines))


def test_imports_are_resolved_by_names_and_spaces() -> None:
    other = 'syntax = "proto3"; package a.b; message Event { int64 at = 1; }'
    text = 'syntax = "proto3"; package a; import "event.proto"; message M { b.Event e = 1; }'
    (made,) = parse_proto(text, [("event.proto", other)]).messages
    assert sql_type_of(made) == Struct((Field("e", Struct((Field("at", BIGINT),))),))
    with pytest.raises(SchemaError, match=r"no message or enum b\.Event"):
        parse_proto(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message {", "line 1, column 9 of the schema"),
        ('syntax = "proto3";', "has no message"),
        ('syntax = "proto3"; message M { Nothing x = 1; }', "no message or enum Nothing"),
        ("x" * 2_000_000, "more than"),
        ('syntax = "proto3"; ' + "message M {" * 5_000 + "}" * 5_000, r"nested|language"),
    ],
)
def test_texts_that_are_no_schemas(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        parse_proto(text)


@pytest.mark.parametrize(
    "kind", [Array(Array(INTEGER)), Map(STRING, Array(INTEGER)), Array(Map(STRING, INTEGER))]
)
def test_what_protobuf_cannot_have(kind: Any) -> None:
    made = message_of([("V", kind)], "M", {})
    with pytest.raises(SchemaError, match="cannot repeat"):
        proto_text(made)
    write = message_writer(made, [("V", kind)])
    assert write([[]]) == write([None]) == b"", "there is nothing to repeat"
    with pytest.raises(RecordError, match="cannot repeat"):
        write([[("k", [1])] if isinstance(kind, Map) else [[1]]])


@settings(max_examples=draws(300), deadline=None)
@given(DRAWN[0], st.data())
def test_broken_bytes_are_no_crash(values: dict[str, Any], data: st.DataObject) -> None:
    content = bytearray(message(values, {}, {}).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    read = message_reader(parse_proto(SCALARS).messages[0])
    try:
        read(bytes(content))
    except RecordError as error:
        assert error.message


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        ("google.protobuf.Timestamp", delimited(1, tag(1, 0) + varint(2**62)), "too far from 1970"),
        ("google.type.Date", delimited(1, tag(1, 0) + varint(2**31 - 1)), "too far from 1970"),
        (
            *("google.type.TimeOfDay", delimited(1, tag(1, 0) + varint(23) + tag(2, 0))),
            "cut off",
        ),
        (
            "google.type.TimeOfDay",
            delimited(1, tag(1, 0) + varint(23) + tag(4, 0) + varint(2**31 - 1)),
            None,
        ),
        ("google.type.TimeOfDay", delimited(1, tag(4, 0) + varint(-1_000)), "not within a day"),
        ("confluent.type.Decimal", delimited(1, tag(3, 0) + varint(2**31 - 1)), "digits after"),
    ],
)
def test_values_that_no_column_can_have_are_bad_records(
    kind: str, content: bytes, reason: str | None
) -> None:
    file = parse_proto(f'syntax = "proto3"; message M {{ {kind} v = 1; }}')
    read = message_reader(file.messages[0])
    if reason is None:
        assert read(content)
        return
    with pytest.raises(RecordError, match=reason):
        read(content)


@pytest.mark.parametrize(
    "kind", [k for k in KINDS if k not in ("float", "double", "string", "bytes")]
)
@pytest.mark.parametrize("number", [2**64 - 1, 2**63, 2**35 + 1, 2**32 - 1])
def test_numbers_longer_than_their_type_are_cut(kind: str, number: int) -> None:
    """As the language's guide says; a column could not have the whole number."""
    file = parse_proto(f'syntax = "proto3"; message M {{ {kind} v = 1; }}')
    column = pa.array([message_reader(file.messages[0])(tag(1, 0) + varint(number))["v"]])
    assert column.cast(arrow_type(KINDS[kind]))

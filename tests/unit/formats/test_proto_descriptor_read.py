"""Protobuf schemas as file descriptors in base64, as Confluent's Python serialiser registers."""

from __future__ import annotations

import base64
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats.proto_descriptor_read import descriptor_text, is_descriptor
from millstream.formats.proto_schema import parse_proto
from millstream.formats.proto_types import message_of, proto_text
from millstream.formats.schema_error import SchemaError
from tests.conformance.messages import IMPORTED, messages_of
from tests.draws import draws
from tests.unit.formats.columns import COLUMNS
from tests.unit.formats.test_protobuf import SCALARS

PROTO2 = """
message Old { required int32 a = 1; optional string b = 2 [default = "x"]; repeated bool c = 3;
  oneof d { int64 e = 4; Inner f = 5; } message Inner { optional Kind kind = 1; }
  enum Kind { option allow_alias = true; ONE = 1; FIRST = 1; LAST = -2; } }
"""
SEVERAL = """
syntax = "proto3"; package a.b;
message One { Two two = 1; map<int32, Two> twos = 2; map<string, Kind> kinds = 3;
  optional Two maybe = 4; oneof left { string l = 5; } oneof right { Two r = 6; bool s = 7; } }
message Two { message Three { sfixed64 x = 1; } repeated Three threes = 1; }
message Empty {}
enum Kind { NONE = 0; }
"""
USING = """
syntax = "proto3"; import "google/protobuf/wrappers.proto"; import "google/type/date.proto";
message U { google.protobuf.Int64Value n = 1; google.type.Date d = 2; }
"""
COLUMNS_TEXT = proto_text(message_of(COLUMNS, "my.space.Root", {}))
TEXTS = {
    "all": SCALARS,
    "proto2": PROTO2,
    "several": SEVERAL,
    "imports": USING,
    "ours": COLUMNS_TEXT,
}


def descriptor(text: str) -> bytes:
    content: bytes = messages_of(text, ())[0].file.serialized_pb
    return content


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_descriptor_says_what_its_text_says(text: str) -> None:
    given = base64.b64encode(descriptor(text)).decode()
    assert is_descriptor(given) and not is_descriptor(text)
    imported = tuple(IMPORTED.items())
    assert parse_proto(given, imported) == parse_proto(text, imported)
    assert parse_proto(given.rstrip("="), imported) == parse_proto(text, imported)


def test_imports_may_be_descriptors() -> None:
    other = 'syntax = "proto3"; package o; message P { int32 n = 1; }'
    text = 'syntax = "proto3"; import "o.proto"; message M { o.P p = 1; }'
    sent = base64.b64encode(descriptor(other)).decode()
    assert parse_proto(text, [("o.proto", sent)]) == parse_proto(text, [("o.proto", other)])


@settings(max_examples=draws(500), deadline=None)
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_broken_descriptors_are_no_crash(name: str, data: st.DataObject) -> None:
    content = bytearray(descriptor(TEXTS[name]))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(0, len(content)))])
    with suppress(SchemaError):
        parse_proto(base64.b64encode(cut).decode(), tuple(IMPORTED.items()))


@pytest.mark.parametrize(
    "content",
    [b"\xff" * 12, b"\x0a\x7f" + b"a" * 9, b"\x22\x09\x0a\x07a b;c{}", b"\x20\x01" * 6],
)
def test_what_is_no_descriptor(content: bytes) -> None:
    with pytest.raises(SchemaError):
        descriptor_text(base64.b64encode(content).decode())
        parse_proto(base64.b64encode(content).decode())


def test_nesting_without_end_is_refused() -> None:
    content = b"\x0a\x01m"
    for _ in range(2_000):
        size = len(content)
        length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
        if size >= 1 << 14:
            length = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
        content = b"\x0a\x01m\x1a" + length + content
    file = b"\x22" + bytes([len(content) & 127 | 128, len(content) >> 7]) + content
    with pytest.raises(SchemaError):
        parse_proto(base64.b64encode(file).decode())

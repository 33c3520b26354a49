"""File descriptors of our own are those that protoc makes."""

from __future__ import annotations

import base64

import pytest
from google.protobuf import descriptor_pb2

from millstream.formats.proto_descriptor_write import descriptor_base64
from millstream.formats.proto_schema import parse_proto
from millstream.formats.schema_error import SchemaError
from tests.conformance.messages import IMPORTED, messages_of
from tests.unit.formats.test_proto_descriptor_read import TEXTS


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_they_are_those_of_protoc(text: str) -> None:
    made = descriptor_pb2.FileDescriptorProto.FromString(
        base64.b64decode(descriptor_base64(text, tuple(IMPORTED.items()), "case.proto"))
    )
    expected = descriptor_pb2.FileDescriptorProto()
    messages_of(text, ())[0].file.CopyToProto(expected)
    assert _known(made) == _known(expected)
    assert parse_proto(base64.b64encode(made.SerializeToString()).decode(), tuple(IMPORTED.items()))


def _known(file: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
    """Without names for JSON and defaults, which no reader of records needs, in one order."""
    for message in file.message_type:
        _plain(message)
    return file


def _plain(message: descriptor_pb2.DescriptorProto) -> None:
    fields = sorted(message.field, key=lambda field: field.number)
    for field in fields:
        field.ClearField("json_name")
        field.ClearField("default_value")
    del message.field[:]
    message.field.extend(fields)
    nested = sorted(message.nested_type, key=lambda each: each.name)
    for each in nested:
        _plain(each)
    del message.nested_type[:]
    message.nested_type.extend(nested)


def test_a_name_of_nothing_is_refused() -> None:
    with pytest.raises(SchemaError, match="no message or enum Other"):
        descriptor_base64('syntax = "proto3"; message M { Other o = 1; }', (), "m.proto")

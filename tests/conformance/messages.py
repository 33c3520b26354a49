"""Messages of the cases in Protobuf, by protoc and Google's library."""

from __future__ import annotations

import base64
import datetime
import tempfile
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import grpc_tools
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from grpc_tools import protoc

META = "confluent/meta.proto"
IMPORTED = {
    META: """
syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
""",
    "confluent/type/decimal.proto": """
syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
    "google/type/date.proto": """
syntax = "proto3"; package google.type;
message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
""",
    "google/type/timeofday.proto": """
syntax = "proto3"; package google.type;
message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }
""",
}
"""Published schemas that those of the cases import, as far as they are used."""
_EPOCH = datetime.date(1970, 1, 1).toordinal()


@cache
def messages_of(text: str, imported: tuple[tuple[str, str], ...]) -> tuple[Descriptor, ...]:
    """The outermost messages of a file, as protoc reads it."""
    with tempfile.TemporaryDirectory() as folder:
        if "confluent.field_meta" in text and META not in text:
            # Confluent's registry knows the option without its import.
            text = text.replace(";", f'; import "{META}";', 1)
        files = {**IMPORTED, **dict(imported), "case.proto": text}
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        out = Path(folder, "out")
        own = str(Path(grpc_tools.__file__).with_name("_proto"))
        options = ["", f"-I{folder}", f"-I{own}", "--include_imports"]
        status = protoc.main([*options, f"--descriptor_set_out={out}", "case.proto"])
        assert status == 0, text
        found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in found.file:
        pool.Add(file)
    file = pool.FindFileByName("case.proto")
    return tuple(file.message_types_by_name[each.name] for each in found.file[-1].message_type)


def written(value: Mapping[str, Any], kind: Descriptor) -> bytes:
    """A value of a case as a message."""
    return bytes(_message(value, kind).SerializeToString())


def shown(data: bytes, kind: Descriptor) -> dict[str, Any]:
    """A message as the cases have it."""
    message = message_factory.GetMessageClass(kind).FromString(data)
    return {field.name: _shown(message, field) for field in kind.fields}


def _message(value: Mapping[str, Any], kind: Descriptor) -> Any:
    message = message_factory.GetMessageClass(kind)()
    folded = {name.upper(): each for name, each in value.items()}
    for field in kind.fields:
        given = folded.get(field.name.upper())
        if given is None:
            continue
        if _is_map(field):
            entries = getattr(message, field.name)
            key, member = (field.message_type.fields_by_name[n] for n in ("key", "value"))
            for name, each in given.items():
                made = _single(each, member)
                if member.message_type is None:
                    entries[_single(name, key)] = made
                else:
                    entries[_single(name, key)].CopyFrom(made)
        elif field.is_repeated:
            getattr(message, field.name).extend(_single(each, field) for each in given)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(_single(given, field))
        else:
            setattr(message, field.name, _single(given, field))
    return message


def _is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is not None and bool(kind.GetOptions().map_entry)


def _single(value: Any, field: FieldDescriptor) -> Any:
    kind = field.message_type
    if kind is not None:
        return _known(value, kind) or _message(value, kind)
    if field.enum_type is not None:
        return field.enum_type.values_by_name[value].number
    if field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return float(value)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64decode(value)
    if field.type == FieldDescriptor.TYPE_STRING:
        return str(value)
    return value if isinstance(value, bool) else int(value)


def _known(value: Any, kind: Descriptor) -> Any:
    """The message of a value that is no object in the cases."""
    make = message_factory.GetMessageClass(kind)
    match kind.full_name:
        case "confluent.type.Decimal":
            exact = Decimal(value)
            scale = max(0, -int(exact.as_tuple().exponent))
            whole = int(exact.scaleb(scale))
            digits = whole.to_bytes((whole.bit_length() + 8) // 8, "big", signed=True)
            return make(value=digits, precision=64, scale=scale)
        case "google.type.Date":
            date = datetime.date.fromordinal(_EPOCH + int(value))
            return make(year=date.year, month=date.month, day=date.day)
        case "google.type.TimeOfDay":
            seconds, milliseconds = divmod(int(value), 1000)
            return make(
                hours=seconds // 3600,
                minutes=seconds // 60 % 60,
                seconds=seconds % 60,
                nanos=milliseconds * 1_000_000,
            )
        case "google.protobuf.Timestamp":
            seconds, milliseconds = divmod(int(value), 1000)
            return make(seconds=seconds, nanos=milliseconds * 1_000_000)
        case name if name.startswith("google.protobuf.") and name.endswith("Value"):
            return make(value=_single(value, kind.fields_by_name["value"]))
    return None


def _shown(message: Any, field: FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        member = field.message_type.fields_by_name["value"]
        return {str(name): _one(each, member) for name, each in value.items()}
    if field.is_repeated:
        return [_one(each, field) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _one(value, field)


def _one(value: Any, field: FieldDescriptor) -> Any:
    kind = field.message_type
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if kind is None:
        return value
    match kind.full_name:
        case "confluent.type.Decimal":
            return Decimal(int.from_bytes(value.value, "big", signed=True)).scaleb(-value.scale)
        case "google.type.Date":
            return datetime.date(value.year, value.month, value.day).toordinal() - _EPOCH
        case "google.type.TimeOfDay":
            seconds = (value.hours * 60 + value.minutes) * 60 + value.seconds
            return seconds * 1000 + value.nanos // 1_000_000
        case "google.protobuf.Timestamp":
            return value.seconds * 1000 + value.nanos // 1_000_000
        case name if name.startswith("google.protobuf.") and name.endswith("Value"):
            return value.value
    return {each.name: _shown(value, each) for each in kind.fields}

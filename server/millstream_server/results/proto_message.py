"""The protobuf message of a schema: its descriptor, its definition as text, and its class.

The fields of a message are numbered in column order. A MAP is repeated entries of a message of its
own, not a map of protobuf. Protobuf has no lists of lists or maps: where a column has them, the
field is a list of their elements, and only empty lists can be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message

from millstream.model import types as t
from millstream.model.schema import Column, Schema
from millstream.model.types import SqlType

_REPEATED = FieldDescriptorProto.LABEL_REPEATED
_INT32, _INT64 = FieldDescriptorProto.TYPE_INT32, FieldDescriptorProto.TYPE_INT64
_UINT32, _BYTES = FieldDescriptorProto.TYPE_UINT32, FieldDescriptorProto.TYPE_BYTES
_STRING, _MESSAGE = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_MESSAGE
_SCALARS: dict[SqlType, FieldDescriptorProto.Type.ValueType] = {
    t.BOOLEAN: FieldDescriptorProto.TYPE_BOOL,
    t.INTEGER: _INT32,
    t.BIGINT: _INT64,
    t.DOUBLE: FieldDescriptorProto.TYPE_DOUBLE,
    t.STRING: _STRING,
    t.BYTES: _BYTES,
}
_DATE, _TIME = "google/type/date.proto", "google/type/timeofday.proto"
_TIMESTAMP, _DECIMAL = "google/protobuf/timestamp.proto", "confluent/type/decimal.proto"
_IMPORTED = {
    _DATE: ("google.type", "Date", (_INT32, _INT32, _INT32)),
    _TIME: ("google.type", "TimeOfDay", (_INT32, _INT32, _INT32, _INT32)),
    _TIMESTAMP: ("google.protobuf", "Timestamp", (_INT64, _INT32)),
    _DECIMAL: ("confluent.type", "Decimal", (_BYTES, _UINT32, _INT32)),
}
"""The messages that definitions import: package, name and types of the fields."""


def field_name(number: int) -> str:
    """The name of a field in the class. Not every name of a column can be one of protobuf."""
    return f"f{number}"


@dataclass(frozen=True, slots=True)
class RowMessage:
    """The message of a schema. `definition`: its text, with the names of the columns; `cls`: its
    class, with fields named by `field_name`."""

    definition: str
    cls: type[Message]


@lru_cache(maxsize=64)
def row_message(schema: Schema) -> RowMessage:
    """The message with the columns of a schema."""
    file = FileDescriptorProto(name="rows.proto", syntax="proto3")
    names = (f"ConnectDefault{number}" for number in count(1))
    _fill(file.message_type.add(name=next(names)), schema.columns, file, names)
    return RowMessage(_text(file), _class(file))


def _fill(
    message: DescriptorProto,
    columns: Sequence[Column | t.Field],
    file: FileDescriptorProto,
    names: Iterator[str],
) -> None:
    for number, column in enumerate(columns, start=1):
        field = message.field.add(name=column.name, number=number)
        _set_type(field, column.type, message, file, names)


def _set_type(
    field: FieldDescriptorProto,
    kind: SqlType,
    message: DescriptorProto,
    file: FileDescriptorProto,
    names: Iterator[str],
) -> None:
    """Set the type of a field of a message, and add the messages that it needs."""
    match kind:
        case t.Array(element):
            _set_type(field, element, message, file, names)
            field.label = _REPEATED
        case t.Map(key, value):
            _nest(field, (t.Field("key", key), t.Field("value", value)), message, file, names)
            field.label = _REPEATED
        case t.Struct(fields):
            _nest(field, fields, message, file, names)
        case t.Decimal():
            _import(field, _DECIMAL, file)
        case t.DATE:
            _import(field, _DATE, file)
        case t.TIME:
            _import(field, _TIME, file)
        case t.TIMESTAMP:
            _import(field, _TIMESTAMP, file)
        case _:
            field.type = _SCALARS.get(kind, _STRING)


def _nest(
    field: FieldDescriptorProto,
    members: Sequence[t.Field],
    message: DescriptorProto,
    file: FileDescriptorProto,
    names: Iterator[str],
) -> None:
    field.type, field.type_name = _MESSAGE, next(names)
    _fill(message.nested_type.add(name=field.type_name), members, file, names)


def _import(field: FieldDescriptorProto, path: str, file: FileDescriptorProto) -> None:
    package, name, _ = _IMPORTED[path]
    field.type, field.type_name = _MESSAGE, f".{package}.{name}"
    if path not in file.dependency:
        file.dependency.append(path)


def _text(file: FileDescriptorProto) -> str:
    """The definition. Protobuf's library for Python cannot print one."""
    imports = "".join(f'import "{path}";\n' for path in file.dependency)
    head = f'syntax = "proto3";\n\n{imports}' + ("\n" if imports else "")
    return head + "".join(_message_text(message, "") for message in file.message_type)


def _message_text(message: DescriptorProto, pad: str) -> str:
    lines = "".join(
        f"{pad}  {'repeated ' if field.label == _REPEATED else ''}{_type_text(field)}"
        f" {field.name} = {field.number};\n"
        for field in message.field
    )
    inner = "".join(f"\n{_message_text(each, f'{pad}  ')}" for each in message.nested_type)
    return f"{pad}message {message.name} {{\n{lines}{inner}{pad}}}\n"


def _type_text(field: FieldDescriptorProto) -> str:
    named = field.type_name.removeprefix(".")
    return named or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _class(file: FileDescriptorProto) -> type[Message]:
    pool = DescriptorPool()
    for path in file.dependency:
        pool.AddSerializedFile(_imported(path).SerializeToString())
    (message,) = file.message_type
    _rename_fields(message)
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(message.name))


def _imported(path: str) -> FileDescriptorProto:
    package, name, kinds = _IMPORTED[path]
    file = FileDescriptorProto(name=path, package=package, syntax="proto3")
    message = file.message_type.add(name=name)
    for number, kind in enumerate(kinds, start=1):
        message.field.add(name=field_name(number), number=number, type=kind)
    return file


def _rename_fields(message: DescriptorProto) -> None:
    for field in message.field:
        field.name = field_name(field.number)
    for nested in message.nested_type:
        _rename_fields(nested)

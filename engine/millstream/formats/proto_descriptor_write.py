"""File descriptors of texts in Protobuf's language, as protoc makes them, for clients that cannot
read the language."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from proto_schema_parser import ast

from millstream.formats.proto_schema import Names, names_of, of_kind, params_of, read_syntax
from millstream.formats.proto_types import SCALARS
from millstream.formats.protobuf_wire import VARINT, delimited, tag, varint
from millstream.formats.schema_error import SchemaError

_TYPES = {
    name: number
    for number, name in enumerate(
        (
            *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool"),
            *("string", "group", "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64"),
            *("sint32", "sint64"),
        ),
        1,
    )
}
_LABELS = {
    ast.FieldCardinality.OPTIONAL: 1,
    ast.FieldCardinality.REQUIRED: 2,
    ast.FieldCardinality.REPEATED: 3,
}
_FIELD_META = 1088


def descriptor_base64(text: str, imported: Sequence[tuple[str, str]], name: str) -> str:
    """The descriptor of a file in base64. `name`: that of the file. Raises SchemaError."""
    file = read_syntax(text)
    names = names_of(file, (each for _, each in imported))
    return base64.b64encode(_Compiler(names, file).file(name)).decode()


class _Compiler:
    """Writes the parts of a file."""

    def __init__(self, names: Names, file: ast.File) -> None:
        self._names = names
        self._file = file
        self._proto3 = file.syntax == "proto3"

    def file(self, name: str) -> bytes:
        """The whole file."""
        found = delimited(1, name.encode())
        package = of_kind(self._file.file_elements, ast.Package)
        space = f".{package[0].name}" if package else ""
        if package:
            found += delimited(2, package[0].name.encode())
        for each in of_kind(self._file.file_elements, ast.Import):
            found += delimited(3, each.name.encode())
        for message in of_kind(self._file.file_elements, ast.Message):
            found += delimited(4, self._message(message, space))
        for enum in of_kind(self._file.file_elements, ast.Enum):
            found += delimited(5, _enum(enum))
        return found + (delimited(12, b"proto3") if self._proto3 else b"")

    def _message(self, message: ast.Message, space: str) -> bytes:
        full = f"{space}.{message.name}"
        found, choices = bytearray(delimited(1, message.name.encode())), bytearray()
        count = 0
        synthetic: list[ast.Field] = []
        for each in message.elements:
            match each:
                case ast.OneOf():
                    choices += delimited(8, delimited(1, each.name.encode()))
                    for field in of_kind(each.elements, ast.Field):
                        found += delimited(2, self._field(field, full, choice=count))
                    count += 1
                case ast.Field() if self._is_optional(each):
                    synthetic.append(each)
                case ast.Field():
                    found += delimited(2, self._field(each, full))
                case ast.MapField():
                    found += self._map(each, full)
                case ast.Message():
                    found += delimited(3, self._message(each, full))
                case ast.Enum():
                    found += delimited(4, _enum(each))
        # Those behind which stands an alternative of their own come after all others.
        for place, field in enumerate(synthetic, count):
            found += delimited(2, self._field(field, full, choice=place, alone=True))
            choices += delimited(8, delimited(1, f"_{field.name}".encode()))
        return bytes(found + choices)

    def _is_optional(self, field: ast.Field) -> bool:
        return self._proto3 and field.cardinality is ast.FieldCardinality.OPTIONAL

    def _field(
        self, field: ast.Field, full: str, *, choice: int | None = None, alone: bool = False
    ) -> bytes:
        label = 1 if field.cardinality is None else _LABELS[field.cardinality]
        found = delimited(1, field.name.encode()) + _number(3, field.number) + _number(4, label)
        found += self._typed(field.type, full)
        if choice is not None:
            found += _number(9, choice)
        found += _options(field.options)
        return found + (_number(17, 1) if alone else b"")

    def _map(self, field: ast.MapField, full: str) -> bytes:
        """The field, and the message of its entries."""
        words = field.name.split("_")
        entry = "".join(word[:1].upper() + word[1:] for word in words) + "Entry"
        members = b""
        for number, name, kind in ((1, "key", field.key_type), (2, "value", field.value_type)):
            member = ast.Field(name=name, number=number, type=kind)
            members += delimited(2, self._field(member, f"{full}.{entry}"))
        message = delimited(1, entry.encode()) + members + delimited(7, _number(7, 1))
        own = delimited(1, field.name.encode()) + _number(3, field.number) + _number(4, 3)
        own += _number(5, _TYPES["message"]) + delimited(6, f"{full}.{entry}".encode())
        return delimited(2, own + _options(field.options)) + delimited(3, message)

    def _typed(self, name: str, full: str) -> bytes:
        if name in SCALARS:
            return _number(5, _TYPES[name])
        found = self._names.found(name, full)
        if found is None:
            raise SchemaError(f"there is no message or enum {name}")
        named, is_enum = found
        return _number(5, _TYPES["enum" if is_enum else "message"]) + delimited(6, named.encode())


def _enum(enum: ast.Enum) -> bytes:
    found = delimited(1, enum.name.encode())
    for value in of_kind(enum.elements, ast.EnumValue):
        found += delimited(2, delimited(1, value.name.encode()) + _number(2, value.number))
    aliases = [
        each
        for each in of_kind(enum.elements, ast.Option)
        if each.name == "allow_alias" and str(each.value).lower() == "true"
    ]
    return found + (delimited(3, _number(2, 1)) if aliases else b"")


def _options(options: Sequence[Any]) -> bytes:
    """Whether numbers are packed, and the parameters of Confluent's option."""
    found = b""
    for option in options:
        if option.name == "packed":
            found += _number(2, int(str(option.value).lower() == "true"))
        entries = b"".join(
            delimited(2, delimited(1, key.encode()) + delimited(2, value.encode()))
            for key, value in params_of(option)
        )
        found += delimited(_FIELD_META, entries) if entries else b""
    return delimited(8, found) if found else b""


def _number(number: int, value: int) -> bytes:
    return tag(number, VARINT) + varint(value)

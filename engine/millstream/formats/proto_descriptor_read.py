"""Schemas as file descriptors: some of Confluent's serialisers register those, in base64, instead
of a text. Here they become text again, as in the registry of Confluent.

Only what decides how messages are read is kept: no services, options or comments.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from millstream.formats.protobuf_wire import Fields, read_fields, signed
from millstream.formats.schema_error import SchemaError
from millstream.model.errors import RecordError

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}\s*")
_TYPES = (
    *("", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string"),
    *("group", "message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
)
"""By their number in a descriptor."""
_REPEATED = 3
_FIELD_META = 1088
"""The number of Confluent's option of fields, whose parameters tell the digits of a decimal."""
DEPTH_MAX = 100


def is_descriptor(text: str) -> bool:
    """Whether a schema is a descriptor in base64 rather than a text of the language."""
    return _BASE64.fullmatch(text) is not None


def descriptor_text(text: str) -> str:
    """The text of the file that a descriptor in base64 describes. Raises SchemaError."""
    try:
        padded = text.strip().rstrip("=").replace("-", "+").replace("_", "/")
        content = base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True)
        return "".join(_file(read_fields(content)))
    except (ValueError, RecordError, LookupError) as error:
        raise SchemaError(f"the schema is no file descriptor: {error}") from error


def _file(file: Fields) -> Iterator[str]:
    syntax = _text(file, 12) or "proto2"
    yield f'syntax = "{syntax}";\n'
    if _text(file, 2):
        yield f"package {_text(file, 2)};\n"
    for name in file.get(3, []):
        yield f'import "{_decoded(name)}";\n'
    for message in _messages(file, 4):
        yield from _message(message, proto3=syntax == "proto3", depth=0)
    for each in _messages(file, 5):
        yield from _enum(each)


def _message(message: Fields, *, proto3: bool, depth: int) -> Iterator[str]:
    if depth > DEPTH_MAX:
        raise SchemaError(f"the schema is nested more than {DEPTH_MAX} levels deep")
    yield f"message {_name(message)} {{\n"
    nested = _messages(message, 3)
    entries = {_name(each): each for each in nested if _is_entry(each)}
    for each in nested:
        if not _is_entry(each):
            yield from _message(each, proto3=proto3, depth=depth + 1)
    for each in _messages(message, 4):
        yield from _enum(each)
    fields = _messages(message, 2)
    alternatives = [_name(each) for each in _messages(message, 8)]
    # The fields of an alternative follow one another.
    for choice, group in groupby(fields, _choice):
        if choice is None:
            for each in group:
                yield _field(each, _label(each, proto3), entries)
        else:
            yield f"oneof {alternatives[choice]} {{\n"
            for each in group:
                yield _field(each, "", entries)
            yield "}\n"
    yield "}\n"


def _enum(given: Fields) -> Iterator[str]:
    yield f"enum {_name(given)} {{\n"
    values = [(_name(each), signed(_number(each, 2), 32)) for each in _messages(given, 2)]
    if len({number for _, number in values}) < len(values):
        yield "option allow_alias = true;\n"
    for name, number in values:
        yield f"{name} = {number};\n"
    yield "}\n"


def _field(field: Fields, label: str, entries: dict[str, Fields]) -> str:
    entry = entries.get(_text(field, 6).rpartition(".")[2])
    end = f"{_name(field)} = {_number(field, 3)}{_options(field)};\n"
    if entry is not None and _number(field, 4) == _REPEATED:
        key, value = sorted(_messages(entry, 2), key=lambda each: _number(each, 3))
        return f"map<{_type(key)}, {_type(value)}> {end}"
    return f"{label}{_type(field)} {end}"


def _type(field: Fields) -> str:
    kind = _TYPES[_number(field, 5)]
    if kind == "group":
        raise SchemaError(f"the field {_name(field)} is a group")
    return _text(field, 6) if kind in ("message", "enum") else kind


def _label(field: Fields, proto3: bool) -> str:
    match _number(field, 4):
        case 3:
            return "repeated "
        case 2:
            return "required "
    # In proto3 a field that may be missing is the only one of an alternative that nobody named.
    return "optional " if not proto3 or _number(field, 17) else ""


def _choice(field: Fields) -> int | None:
    """The alternative that a field is one of, by its place."""
    return None if 9 not in field or _number(field, 17) else _number(field, 9)


def _options(field: Fields) -> str:
    """The parameters of Confluent's option, if the field has any."""
    found = [
        (_text(entry, 1), _text(entry, 2))
        for options in _messages(field, 8)
        for meta in _messages(options, _FIELD_META)
        for entry in _messages(meta, 2)
    ]
    if not found:
        return ""
    params = ", ".join(f'{{key: "{key}", value: "{value}"}}' for key, value in found)
    return f" [(confluent.field_meta) = {{params: [{params}]}}]"


def _is_entry(message: Fields) -> bool:
    return any(_number(options, 7) for options in _messages(message, 7))


def _messages(fields: Fields, number: int) -> Sequence[Fields]:
    return [read_fields(_bytes(each)) for each in fields.get(number, [])]


def _name(fields: Fields) -> str:
    return _text(fields, 1)


def _text(fields: Fields, number: int) -> str:
    found = fields.get(number, [b""])[-1]
    return _decoded(found)


def _decoded(value: int | bytes) -> str:
    found = _bytes(value).decode()
    if re.search(r'["\\\n{};]', found):
        raise SchemaError("the schema is no file descriptor: it has a name that is none")
    return found


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise SchemaError("the schema is no file descriptor: it has a number where a text belongs")
    return value


def _number(fields: Fields, number: int) -> int:
    found = fields.get(number, [0])[-1]
    if not isinstance(found, int):
        raise SchemaError("the schema is no file descriptor: it has a text where a number belongs")
    return found

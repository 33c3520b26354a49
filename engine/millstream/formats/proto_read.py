"""Reads Protobuf's binary encoding into the values of a message's type of SQL."""

from __future__ import annotations

import decimal
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from millstream.formats.proto_types import (
    Enumerated,
    Known,
    Label,
    MapOf,
    Message,
    ProtoField,
    ProtoType,
    Recursion,
    Scalar,
    Unrepeatable,
    Wrapper,
    sql_type_of,
)
from millstream.formats.protobuf_wire import Fields, double_of, read_fields, read_varint, signed
from millstream.model.errors import RecordError
from millstream.model.java_time import days_from_civil
from millstream.model.types import DATE, TIME, Decimal, SqlType

Wire = int | bytes
Value = Callable[[Wire], Any]
"""The value of what the wire has for a field once. Raises RecordError."""
_CONTEXT = decimal.Context(prec=400)
SCALE_MAX = 300
"""The digits after the point of a decimal that are read, or zeros before it."""
_FIXED = {"fixed32": 4, "sfixed32": 4, "float": 4, "fixed64": 8, "sfixed64": 8, "double": 8}
ZEROS: Mapping[str, Any] = {"bool": False, "string": "", "bytes": b"", "double": 0.0, "float": 0.0}


def message_reader(message: Message) -> Callable[[bytes], dict[str, Any]]:
    """Reads a message as the values of its fields. Raises RecordError."""
    fields = [
        (field.number, field.name, _field(field))
        for field in message.fields
        if sql_type_of(field.type, field.label) is not None
    ]

    alternatives = _alternatives(message)

    def read(content: bytes) -> dict[str, Any]:
        given = read_fields(content)
        for numbers in alternatives:
            # The last one counts.
            for number in [each for each in given if each in numbers][:-1]:
                del given[number]
        try:
            return {name: value(given.get(number)) for number, name, value in fields}
        except UnicodeDecodeError as error:
            raise RecordError(str(error)) from error

    return read


def _alternatives(message: Message) -> list[set[int]]:
    """The numbers of the fields of which a message has one at most."""
    found: dict[str, set[int]] = {}
    for field in message.fields:
        if field.choice:
            found.setdefault(field.choice, set()).add(field.number)
    return [numbers for numbers in found.values() if len(numbers) > 1]


def _field(field: ProtoField) -> Callable[[list[Wire] | None], Any]:
    """Reads all that the wire has for a field."""
    kind = field.type
    if isinstance(kind, MapOf):
        return _map(kind)
    read = _value(kind)
    if field.label is Label.REPEATED:
        return partial(_repeated, kind, read)
    if isinstance(kind, Message | Known | Wrapper):
        # The parts of a message that is there several times are merged.
        return lambda given: None if given is None else read(b"".join(map(_as_bytes, given)))
    absent = None
    if field.label is Label.SINGULAR and isinstance(kind, Scalar | Enumerated):
        absent = _zero(kind)
    return lambda given: absent if given is None else read(given[-1])


def _zero(kind: Scalar | Enumerated) -> Any:
    if isinstance(kind, Enumerated):
        return dict(kind.names).get(0, "0")
    return ZEROS.get(kind.name, 0)


def _map(kind: MapOf) -> Callable[[list[Wire] | None], Any]:
    key = _field(ProtoField(1, "key", kind.key))
    member = _field(ProtoField(2, "value", kind.value))
    text = kind.key.name != "string"

    def entries(given: list[Wire] | None) -> list[tuple[Any, Any]]:
        found = {}
        for entry in given or ():
            parts = read_fields(_as_bytes(entry))
            name = key(parts.get(1))
            found[_text(name) if text else name] = member(parts.get(2))
        return list(found.items())

    return entries


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _repeated(kind: ProtoType, read: Value, given: list[Wire] | None) -> list[Any]:
    if not isinstance(kind, Scalar | Enumerated) or kind in (Scalar("string"), Scalar("bytes")):
        return [read(each) for each in given or ()]
    found: list[Any] = []
    for each in given or ():
        items: Sequence[Wire] = _unpacked(each, kind) if isinstance(each, bytes) else [each]
        found += [read(item) for item in items]
    return found


def _unpacked(content: bytes, kind: Scalar | Enumerated) -> list[int]:
    """The items of a packed field, as the wire has them alone."""
    width = _FIXED.get(kind.name) if isinstance(kind, Scalar) else None
    if width is not None:
        if len(content) % width:
            raise RecordError("a packed field is cut off")
        starts = range(0, len(content), width)
        return [int.from_bytes(content[at : at + width], "little") for at in starts]
    items, at = [], 0
    while at < len(content):
        item, at = read_varint(content, at)
        items.append(item)
    return items


def _value(kind: ProtoType) -> Value:
    match kind:
        case Scalar(name):
            return _scalar(name)
        case Enumerated(names):
            by_number = dict(names)
            return lambda given: _named(by_number, given)
        case Wrapper(of):
            inner = _field(ProtoField(1, "value", of))
            return lambda given: inner(read_fields(_as_bytes(given)).get(1))
        case Known(known):
            return lambda given: _known(known, read_fields(_as_bytes(given)))
        case Message():
            read = message_reader(kind)
            return lambda given: read(_as_bytes(given))
        case Unrepeatable(of):
            return lambda _: _unrepeatable(of)
        case MapOf() | Recursion():
            raise RecordError("the message has a field that no column can have")


def _unrepeatable(of: SqlType) -> Any:
    raise RecordError(f"Protobuf cannot repeat a field of type {of}")


def _named(names: Mapping[int, str], given: Wire) -> str:
    number = signed(_as_number(given), 32)
    return names.get(number, str(number))


def _scalar(name: str) -> Value:
    match name:
        case "string":
            return lambda given: _as_bytes(given).decode()
        case "bytes":
            return _as_bytes
        case "double":
            return lambda given: double_of(_as_number(given))
        case "float":
            return _float
        case "bool":
            return lambda given: _as_number(given) != 0
        case "sint32":
            return lambda given: _zigzag(_as_number(given) & 0xFFFFFFFF)
        case "sint64":
            return lambda given: _zigzag(_as_number(given))
        case "fixed32" | "uint32":
            return lambda given: _as_number(given) & 0xFFFFFFFF
    bits = 32 if name in ("int32", "sfixed32") else 64
    return lambda given: signed(_as_number(given), bits)


def _float(given: Wire) -> float:
    packed = (_as_number(given) & 0xFFFFFFFF).to_bytes(4, "little")
    return float(struct.unpack("<f", packed)[0])


def _zigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


def _known(known: SqlType, fields: Fields) -> Any:
    if isinstance(known, Decimal):
        digits = fields.get(1, [b""])[-1]
        whole = decimal.Decimal(int.from_bytes(_as_bytes(digits), "big", signed=True))
        scale = _part(fields, 3)
        if abs(scale) > SCALE_MAX:
            raise RecordError(f"a Decimal has {scale} digits after the point")
        return whole.scaleb(-scale, _CONTEXT)
    if known == DATE:
        days = days_from_civil(_part(fields, 1), _part(fields, 2) or 1, _part(fields, 3) or 1)
        return _within(days, 2**31, "Date")
    if known == TIME:
        seconds = (_part(fields, 1) * 60 + _part(fields, 2)) * 60 + _part(fields, 3)
        microseconds = seconds * 1_000_000 + _part(fields, 4) // 1000
        if not 0 <= microseconds < 86_400_000_000:
            raise RecordError("a TimeOfDay is not within a day")
        return microseconds
    microseconds = signed(_first(fields, 1), 64) * 1_000_000 + _part(fields, 2) // 1000
    return _within(microseconds, 2**63, "Timestamp")


def _within(number: int, limit: int, what: str) -> int:
    if not -limit <= number < limit:
        raise RecordError(f"a {what} is too far from 1970")
    return number


def _part(fields: Fields, number: int) -> int:
    return signed(_first(fields, number), 32)


def _first(fields: Fields, number: int) -> int:
    value = fields.get(number, [0])[-1]
    if isinstance(value, bytes):
        raise RecordError(f"field {number} of a message is no number")
    return value


def _as_bytes(value: Wire) -> bytes:
    if isinstance(value, int):
        raise RecordError("expected a length-delimited field, got a number")
    return value


def _as_number(value: Wire) -> int:
    if isinstance(value, bytes):
        raise RecordError(f"expected a number, got a field of {len(value)} bytes")
    return value

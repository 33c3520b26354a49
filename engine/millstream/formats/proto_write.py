"""Writes Protobuf's binary encoding."""

from __future__ import annotations

import decimal
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from millstream.formats.conversion import place_of
from millstream.formats.proto_read import ZEROS
from millstream.formats.proto_types import (
    Enumerated,
    Known,
    Label,
    MapOf,
    Message,
    ProtoField,
    ProtoType,
    Scalar,
    Unrepeatable,
    Wrapper,
    sql_type_of,
)
from millstream.formats.protobuf_wire import (
    FIXED32,
    FIXED64,
    VARINT,
    delimited,
    double_bytes,
    tag,
    varint,
)
from millstream.formats.schema_error import SchemaError
from millstream.model.errors import RecordError
from millstream.model.java_time import civil_from_days
from millstream.model.physical import physical_names
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    Array,
    Decimal,
    Map,
    SqlType,
    Struct,
)

Write = Callable[[Any], bytes]
"""The field with a value, which is not NULL, or without it where that is the same. Raises
RecordError."""
_CONTEXT = decimal.Context(prec=400)
_WHOLE = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64")
_LIMITS: Mapping[str, tuple[int, int]] = {
    "uint32": (0, 1 << 32),
    "fixed32": (0, 1 << 32),
    "uint64": (0, 1 << 63),
    "fixed64": (0, 1 << 63),
}


def message_writer(
    message: Message, columns: Sequence[tuple[str, SqlType]]
) -> Callable[[Sequence[Any]], bytes]:
    """Writes the values of columns as a message; fields that no column has are left out. Raises
    SchemaError where the message cannot have these columns."""
    writes: list[tuple[int, Write]] = []
    for field in message.fields:
        place = place_of(field.name, [name for name, _ in columns])
        if place is not None:
            writes.append((place, _field(field, columns[place][1])))
    known = {place for place, _ in writes}
    missing = next((name for n, (name, _) in enumerate(columns) if n not in known), None)
    if missing is not None:
        raise SchemaError(f"the message {message.name} has no field {missing}")

    def write(values: Sequence[Any]) -> bytes:
        parts = (each(values[place]) for place, each in writes if values[place] is not None)
        return b"".join(parts)

    return write


def _field(field: ProtoField, kind: SqlType) -> Write:
    match field.type, kind:
        case MapOf() as of, Map(key, member):
            return _map(field, of, key, member)
        case of, Array(element) if field.label is Label.REPEATED:
            return _repeated(field, of, element)
        case of, _ if field.label is not Label.REPEATED:
            return _single(field, of, kind)
    raise _unfit(field, kind)


def _single(field: ProtoField, of: ProtoType, kind: SqlType) -> Write:
    number = field.number
    match of:
        case Scalar():
            write = _scalar(number, of, kind, field)
            if field.label is Label.OPTIONAL:
                return write
            zero = ZEROS.get(of.name, 0)
            # -0.0 equals the zero value but is not it.
            return lambda value: b"" if value == zero and str(value) != "-0.0" else write(value)
        case Enumerated(names) if kind == STRING:
            return _symbol(number, names, field.name)
        case Wrapper(inner):
            within = _single(ProtoField(1, field.name, inner), inner, kind)
            return lambda value: delimited(number, within(value))
        case _:
            content = _content(field, of, kind)
            return lambda value: delimited(number, content(value))


def _content(field: ProtoField, of: ProtoType, kind: SqlType) -> Write:
    """The content of the message that represents a value."""
    match of, kind:
        case Message(), Struct(fields):
            names = physical_names(each.name for each in fields)
            write = message_writer(of, [(each.name, each.type) for each in fields])
            return lambda value: write([value[name] for name in names])
        case Known(Decimal() as wanted), Decimal():
            return _decimal(wanted, field.name)
        case Known(known), _ if known == kind:
            return _time(kind)
        case Unrepeatable(wanted), _ if wanted == kind:
            return _unrepeatable(wanted)
        case Wrapper(inner), _:
            return _single(ProtoField(1, field.name, inner), inner, kind)
    raise _unfit(field, kind)


def _unrepeatable(of: SqlType) -> Write:
    def write(value: Any) -> bytes:
        raise RecordError(f"Protobuf cannot repeat a field of type {of}")

    return write


def _map(field: ProtoField, of: MapOf, key: SqlType, member: SqlType) -> Write:
    first = _single(ProtoField(1, "key", of.key), of.key, key)
    second = _single(ProtoField(2, "value", of.value), of.value, member)

    def write(value: Sequence[tuple[Any, Any]]) -> bytes:
        entries = (first(_inside(k)) + second(_inside(v)) for k, v in value)
        return b"".join(delimited(field.number, entry) for entry in entries)

    return write


def _repeated(field: ProtoField, of: ProtoType, element: SqlType) -> Write:
    number = field.number
    if isinstance(of, Scalar) and of.name not in ("string", "bytes"):
        # Packed: the bare values of all elements in one field.
        one, skip = _scalar(1, of, element, field), len(tag(1, VARINT))

        def packed(values: Sequence[Any]) -> bytes:
            content = b"".join(one(_inside(value))[skip:] for value in values)
            return delimited(number, content) if values else b""

        return packed
    if isinstance(of, Scalar):
        each = _scalar(number, of, element, field)
    elif isinstance(of, Enumerated) and element == STRING:
        each = _symbol(number, of.names, field.name)
    else:
        content = _content(field, of, element)
        each = lambda value: delimited(number, content(value))  # noqa: E731
    return lambda values: b"".join(each(_inside(value)) for value in values)


def _inside(value: Any) -> Any:
    if value is None:
        raise RecordError("Protobuf has no NULL inside of an array or map")
    return value


def _scalar(number: int, of: Scalar, kind: SqlType, field: ProtoField) -> Write:
    match of.name:
        case "double" if kind in (DOUBLE, INTEGER, BIGINT):
            return lambda value: tag(number, FIXED64) + double_bytes(value)
        case "float" if kind in (DOUBLE, INTEGER, BIGINT):
            return lambda value: tag(number, FIXED32) + _float(value)
        case "string" if kind == STRING:
            return lambda value: delimited(number, value.encode())
        case "bytes" if kind == BYTES:
            return lambda value: delimited(number, value)
        case "bool" if kind == BOOLEAN:
            return lambda value: tag(number, VARINT) + varint(int(value))
        case name if kind == INTEGER or (kind == BIGINT and _holds_long(name)):
            if name not in (*_WHOLE, "sfixed32", "sfixed64"):
                raise _unfit(field, kind)
            return _whole(number, name, field.name)
    raise _unfit(field, kind)


def _holds_long(name: str) -> bool:
    return name.endswith("64") or name in ("uint32", "fixed32")


def _whole(number: int, name: str, column: str) -> Write:
    low, high = _LIMITS.get(name, (-(1 << 63), 1 << 63))

    def write(value: int) -> bytes:
        if not low <= value < high:
            raise RecordError(f"{column} is {value}, which is no {name}")
        if name.startswith("sint"):
            return tag(number, VARINT) + varint((value << 1) ^ (value >> 63))
        if "fixed" not in name:
            return tag(number, VARINT) + varint(value)
        width, wire = (4, FIXED32) if name.endswith("32") else (8, FIXED64)
        content = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        return tag(number, wire) + content

    return write


def _float(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


def _symbol(number: int, names: Sequence[tuple[int, str]], column: str) -> Write:
    numbers = {name: value for value, name in names}

    def write(value: str) -> bytes:
        if value not in numbers:
            raise RecordError(f"{column} is '{value}', which is no name of its enum")
        return tag(number, VARINT) + varint(numbers[value])

    return write


def _decimal(wanted: Decimal, column: str) -> Write:
    precision, scale = wanted.precision, wanted.scale

    def write(value: decimal.Decimal) -> bytes:
        scaled = value.scaleb(scale, _CONTEXT)
        whole = int(scaled)
        if whole != scaled or abs(whole) >= 10**precision:
            raise RecordError(f"{column} is {value}, which does not fit into {wanted}")
        size = (whole if whole >= 0 else ~whole).bit_length() // 8 + 1
        digits = whole.to_bytes(size, "big", signed=True)
        return delimited(1, digits) + _numbers(precision, scale, start=2)

    return write


def _time(kind: SqlType) -> Write:
    if kind == DATE:
        return lambda value: _numbers(*civil_from_days(value))
    if kind == TIME:
        return lambda value: _numbers(
            value.hour, value.minute, value.second, value.microsecond * 1000
        )
    return lambda value: _numbers(value // 1_000_000, value % 1_000_000 * 1000)


def _numbers(*values: int, start: int = 1) -> bytes:
    return b"".join(
        tag(number, VARINT) + varint(value)
        for number, value in enumerate(values, start=start)
        if value
    )


def _unfit(field: ProtoField, kind: SqlType) -> SchemaError:
    has = sql_type_of(field.type, field.label)
    return SchemaError(f"{field.name} is {kind}, and the message has {has or 'a message'} there")

"""PROTOBUF_NOSR: messages whose fields are numbered in column order, without a registry.

Scalars are proto3 scalars: NULL is written as their zero value and an absent one is read as the
zero value, unless the property `nullableRepresentation` is OPTIONAL (absent means NULL) or WRAPPER
(scalars are in messages of their own). DECIMAL, DATE, TIME and TIMESTAMP are the messages
confluent.type.Decimal, google.type.Date, google.type.TimeOfDay and google.protobuf.Timestamp.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from millstream.formats.json_rows import fit_decimal
from millstream.formats.payload import (
    Bytes,
    Layout,
    Read,
    Written,
    nothing_read,
    read_one_by_one,
)
from millstream.formats.protobuf_wire import (
    FIXED64,
    VARINT,
    Fields,
    delimited,
    double_bytes,
    double_of,
    read_fields,
    read_varint,
    signed,
    tag,
    varint,
)
from millstream.model.errors import RecordError
from millstream.model.java_time import civil_from_days, days_from_civil
from millstream.model.physical import physical_names
from millstream.model.python_values import counted
from millstream.model.types import Array, Decimal, Map, Primitive, SqlType, Struct

_ZERO: dict[SqlType, Any] = {
    Primitive.BOOLEAN: False,
    Primitive.INTEGER: 0,
    Primitive.BIGINT: 0,
    Primitive.DOUBLE: 0.0,
    Primitive.STRING: "",
    Primitive.BYTES: b"",
}
_CONTEXT = decimal.Context(prec=400)


def read_protobuf(payload: Bytes, layout: Layout) -> Read:
    """Read the wanted columns of each message."""
    if not layout.columns:
        return nothing_read(layout, len(payload))
    nulls = _representation(layout)

    def values(content: bytes) -> list[Any]:
        try:
            fields = read_fields(content)
            return [
                _read(fields.get(number), column.type, nulls)
                for number, column in enumerate(layout.columns, start=1)
            ]
        except UnicodeDecodeError as error:
            raise RecordError(str(error)) from error

    return read_one_by_one(payload.to_pylist(), layout, values)


def write_protobuf(columns: list[pa.Array], layout: Layout) -> Written:
    """Write each row as a message; NULL inside an array or map cannot be written."""
    nulls = _representation(layout)
    types = [column.type for column in layout.columns]
    rows: list[bytes | None] = []
    bad = {}
    # Python has dates for the years 1 to 9999 only.
    given = (counted(column).to_pylist() for column in columns)
    for row, values in enumerate(zip(*given, strict=True)):
        try:
            rows.append(_message(values, types, nulls))
        except RecordError as error:
            bad[row] = error.message
            rows.append(None)
    return Written(pa.array(rows, pa.binary()), bad)


def _representation(layout: Layout) -> str:
    return layout.properties.get("nullableRepresentation", "").upper()


def _message(values: Sequence[Any], types: Sequence[SqlType], nulls: str) -> bytes:
    return b"".join(
        _field(number, value, sql_type, nulls)
        for number, (value, sql_type) in enumerate(zip(values, types, strict=True), start=1)
    )


def _field(number: int, value: Any, sql_type: SqlType, nulls: str) -> bytes:
    if value is None:
        return b""
    match sql_type:
        case Array(element):
            return _repeated(number, value, element, nulls)
        case Map(key, member):
            entries = (_message(entry, (key, member), _inside(entry)) for entry in value)
            return b"".join(delimited(number, entry) for entry in entries)
    if sql_type not in _ZERO:
        return delimited(number, _content(value, sql_type, nulls))
    if nulls == "WRAPPER":
        return delimited(number, _field(1, value, sql_type, ""))
    # -0.0 equals the zero value but is not it.
    if nulls != "OPTIONAL" and value == _ZERO[sql_type] and str(value) != "-0.0":
        return b""
    return _scalar(number, value, sql_type)


def _repeated(number: int, values: Sequence[Any], element: SqlType, nulls: str) -> bytes:
    for value in values:
        _inside((value,))
        if isinstance(element, Array | Map):
            raise RecordError(f"Protobuf cannot repeat a field of type {element}")
    if element in (Primitive.STRING, Primitive.BYTES):
        return b"".join(_scalar(number, value, element) for value in values)
    if element in _ZERO:
        # Packed: the bare values of all elements in one field.
        skip = len(tag(1, VARINT))
        packed = b"".join(_scalar(1, value, element)[skip:] for value in values)
        return delimited(number, packed) if values else b""
    return b"".join(delimited(number, _content(value, element, nulls)) for value in values)


def _inside(values: Sequence[Any]) -> str:
    if any(value is None for value in values):
        raise RecordError("Protobuf has no NULL inside of an array or map")
    return ""


def _scalar(number: int, value: Any, sql_type: SqlType) -> bytes:
    match sql_type:
        case Primitive.DOUBLE:
            return tag(number, FIXED64) + double_bytes(value)
        case Primitive.STRING:
            return delimited(number, value.encode())
        case Primitive.BYTES:
            return delimited(number, value)
    return tag(number, VARINT) + varint(int(value))


def _content(value: Any, sql_type: SqlType, nulls: str) -> bytes:
    """The content of the message that represents a value."""
    match sql_type:
        case Struct(members):
            names = physical_names(member.name for member in members)
            types = [member.type for member in members]
            return _message([value[name] for name in names], types, nulls)
        case Decimal(precision, scale):
            whole = int(value.scaleb(scale, _CONTEXT))
            digits = whole.to_bytes((whole.bit_length() + 8) // 8, "big", signed=True)
            return delimited(1, digits) + _numbers(precision, scale, start=2)
        case Primitive.DATE:
            return _numbers(*civil_from_days(value))
        case Primitive.TIME:
            return _numbers(value.hour, value.minute, value.second, value.microsecond * 1000)
    return _numbers(value // 1_000_000, value % 1_000_000 * 1000)


def _numbers(*values: int, start: int = 1) -> bytes:
    return b"".join(
        tag(number, VARINT) + varint(value)
        for number, value in enumerate(values, start=start)
        if value
    )


def _read(values: list[int | bytes] | None, sql_type: SqlType, nulls: str) -> Any:
    match sql_type:
        case Array(element):
            return _read_repeated(values or [], element, nulls)
        case Map(key, member):
            entries = (read_fields(_as_bytes(entry)) for entry in values or ())
            pairs = ((_read(e.get(1), key, ""), _read(e.get(2), member, "")) for e in entries)
            return list(dict(pairs).items())
    if sql_type not in _ZERO:
        return None if values is None else _read_message(_as_bytes(values[-1]), sql_type, nulls)
    if values is None:
        return None if nulls in ("OPTIONAL", "WRAPPER") else _ZERO[sql_type]
    if nulls == "WRAPPER":
        return _read(read_fields(_as_bytes(values[-1])).get(1), sql_type, "")
    return _read_scalar(values[-1], sql_type)


def _read_repeated(values: list[int | bytes], element: SqlType, nulls: str) -> list[Any]:
    if element not in _ZERO:
        return [_read_message(_as_bytes(value), element, nulls) for value in values]
    if element in (Primitive.STRING, Primitive.BYTES):
        return [_read_scalar(value, element) for value in values]
    found = []
    for value in values:
        items = _unpacked(value, element) if isinstance(value, bytes) else [value]
        found += [_read_scalar(item, element) for item in items]
    return found


def _unpacked(content: bytes, element: SqlType) -> list[int]:
    if element is Primitive.DOUBLE:
        if len(content) % 8:
            raise RecordError("a packed field of doubles is cut off")
        parts = (content[at : at + 8] for at in range(0, len(content), 8))
        return [int.from_bytes(part, "little") for part in parts]
    items, at = [], 0
    while at < len(content):
        item, at = read_varint(content, at)
        items.append(item)
    return items


def _read_scalar(value: int | bytes, sql_type: SqlType) -> Any:
    match sql_type:
        case Primitive.STRING:
            return _as_bytes(value).decode()
        case Primitive.BYTES:
            return _as_bytes(value)
    if isinstance(value, bytes):
        raise RecordError(f"expected {sql_type}, got a field of {len(value)} bytes")
    match sql_type:
        case Primitive.DOUBLE:
            return double_of(value)
        case Primitive.BOOLEAN:
            return value != 0
    return signed(value, 32 if sql_type is Primitive.INTEGER else 64)


def _read_message(content: bytes, sql_type: SqlType, nulls: str) -> Any:
    fields = read_fields(content)
    match sql_type:
        case Struct(members):
            names = physical_names(member.name for member in members)
            return {
                name: _read(fields.get(number), member.type, nulls)
                for number, (name, member) in enumerate(zip(names, members, strict=True), start=1)
            }
        case Decimal(precision, scale):
            digits = _read(fields.get(1), Primitive.BYTES, "")
            number = decimal.Decimal(int.from_bytes(digits, "big", signed=True))
            return fit_decimal(number.scaleb(-_part(fields, 3), _CONTEXT), precision, scale)
        case Primitive.DATE:
            return days_from_civil(_part(fields, 1), _part(fields, 2) or 1, _part(fields, 3) or 1)
        case Primitive.TIME:
            seconds = (_part(fields, 1) * 60 + _part(fields, 2)) * 60 + _part(fields, 3)
            if not 0 <= seconds < 86_400:
                raise RecordError("a TimeOfDay is not within a day")
            return seconds * 1_000_000 + _part(fields, 4) // 1000
        case Primitive.TIMESTAMP:
            return signed(_first(fields, 1), 64) * 1_000_000 + _part(fields, 2) // 1000
    raise RecordError(f"Protobuf cannot hold a value of type {sql_type} here")


def _part(fields: Fields, number: int) -> int:
    return signed(_first(fields, number), 32)


def _first(fields: Fields, number: int) -> int:
    value = fields.get(number, [0])[-1]
    if isinstance(value, bytes):
        raise RecordError(f"field {number} of a message is no number")
    return value


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise RecordError("expected a length-delimited field, got a number")
    return value

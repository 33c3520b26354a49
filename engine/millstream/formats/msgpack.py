"""MSGPACK: a record is a MessagePack map from column names to values, without a schema.

A parsed record is brought into the form of parsed JSON, so that fields are found, converted and
refused by the rules of JSON. MessagePack has bytes and timestamps of its own; DATE and TIME are
numbers as in JSON. A DECIMAL is written as text, because a binary floating-point number would lose
digits.
"""

from __future__ import annotations

import base64
import decimal
import math
from collections.abc import Callable
from typing import Any

import msgpack
import pyarrow as pa

from millstream.formats.json_rows import read_record
from millstream.formats.payload import Bytes, Layout, Read, read_one_by_one
from millstream.model.errors import RecordError
from millstream.model.physical import physical_names
from millstream.model.python_values import counted
from millstream.model.types import Array, Decimal, Map, Primitive, SqlType, Struct

NO_FIELDS = b"\x80"
"""The record without fields."""
_DEPTH_MAX = 200
"""Deeper values are refused: the depth that Python's stack supports depends on the caller."""
_MICROS = 1_000_000


def read_msgpack(payload: Bytes, layout: Layout) -> Read:
    """Read the wanted columns of each record. The value nil, and a payload without bytes, is no
    value."""

    def values(content: bytes) -> list[Any] | None:
        record = _parsed(content)
        return None if record is None else read_record(record, layout.columns, layout.wrapped)

    return read_one_by_one(payload.to_pylist(), layout, values)


def write_msgpack(columns: list[pa.Array], layout: Layout) -> Bytes:
    """Write each row as a record. A single column that is not wrapped is the whole payload, and
    NULL is a NULL payload."""
    names = [column.name for column in layout.columns]
    converted = []
    for column, array in zip(layout.columns, columns, strict=True):
        convert = _writer(column.type)
        # Python has dates for the years 1 to 9999 only.
        converted.append([_written(value, convert) for value in counted(array).to_pylist()])
    pack = msgpack.Packer().pack
    if not layout.wrapped:
        return pa.array([None if v is None else pack(v) for v in converted[0]], pa.binary())
    rows = zip(*converted, strict=True)
    return pa.array([pack(dict(zip(names, row, strict=True))) for row in rows], pa.binary())


def _parsed(content: bytes) -> Any:
    """The value of a payload as parsed JSON; None for nil and for no bytes."""
    try:
        # The library refuses lengths beyond the payload before it allocates memory.
        return _as_json(msgpack.unpackb(content), 0) if content else None
    except RecordError as error:
        raise RecordError(f"the bytes are not a MessagePack record: {error.message}") from error
    except ValueError as error:
        reason = str(error) or type(error).__name__
        raise RecordError(f"the bytes are not MessagePack: {reason}") from error


def _as_json(value: Any, depth: int) -> Any:
    """A value as it would be parsed from JSON: fractions are decimals, bytes base64 text, and
    timestamps milliseconds."""
    if depth > _DEPTH_MAX:
        raise RecordError(f"it is nested more than {_DEPTH_MAX} deep")
    match value:
        case float():
            return _fraction(value)
        case bytes():
            return base64.b64encode(value).decode()
        case msgpack.Timestamp(seconds=seconds, nanoseconds=nanoseconds):
            return seconds * 1000 + nanoseconds // _MICROS
        case msgpack.ExtType(code=code):
            raise RecordError(f"the extension type {code} is unknown")
        case list():
            return [_as_json(item, depth + 1) for item in value]
        case dict():
            if not all(isinstance(key, str) for key in value):
                raise RecordError("a key of a map is not text")
            return {key: _as_json(item, depth + 1) for key, item in value.items()}
    return value


def _fraction(value: float) -> decimal.Decimal | str:
    if math.isfinite(value):
        return decimal.Decimal(repr(value))
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _written(value: Any, convert: Callable[[Any], Any]) -> Any:
    return None if value is None else convert(value)


def _writer(sql_type: SqlType) -> Callable[[Any], Any]:
    """The conversion of the values of a type, which are not NULL, to those that are packed."""
    match sql_type:
        case Decimal():
            return lambda value: format(value, "f")
        case Primitive.TIME:
            return _milliseconds
        case Primitive.TIMESTAMP:
            return _timestamp
        case Array(element):
            inner = _writer(element)
            return lambda value: [_written(item, inner) for item in value]
        case Map(_, member):
            of_member = _writer(member)
            return lambda value: {
                "null" if key is None else key: _written(item, of_member) for key, item in value
            }
        case Struct(members):
            names = physical_names(member.name for member in members)
            fields = [
                (member.name, name, _writer(member.type))
                for member, name in zip(members, names, strict=True)
            ]
            return lambda value: {
                written: _written(value[name], convert) for written, name, convert in fields
            }
    return lambda value: value


def _milliseconds(time: Any) -> int:
    seconds: int = (time.hour * 60 + time.minute) * 60 + time.second
    millis: int = time.microsecond // 1000
    return seconds * 1000 + millis


def _timestamp(micros: int) -> msgpack.Timestamp:
    return msgpack.Timestamp(micros // _MICROS, micros % _MICROS * 1000)

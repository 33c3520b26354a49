"""Protobuf messages of test records: fields numbered in column order, proto3, no registry.

Written for the suite alone, so that an error of the engine's own codec cannot hide itself.
Values are those of the case files: JSON values, BYTES in base64, times as numbers.
"""

from __future__ import annotations

import base64
import datetime
import struct
from collections import defaultdict
from decimal import Context, Decimal
from typing import Any

from millstream.model import types as t
from millstream.model.types import SqlType

Fields = tuple[tuple[str, SqlType], ...]
_NUMBER, _EIGHT, _BLOCK = 0, 1, 2
_EPOCH = datetime.date(1970, 1, 1)
_ZERO: dict[SqlType, Any] = {
    t.BOOLEAN: False,
    t.INTEGER: 0,
    t.BIGINT: 0,
    t.DOUBLE: 0.0,
    t.STRING: "",
    t.BYTES: "",
}


def write_message(value: dict[str, Any], fields: Fields, nullable: str = "") -> bytes:
    """An object as a message; names are matched without regard to case."""
    given = {name.upper(): member for name, member in value.items()}
    return b"".join(
        _field(number, given.get(name.upper()), kind, nullable)
        for number, (name, kind) in enumerate(fields, 1)
    )


def read_message(data: bytes, fields: Fields, nullable: str = "") -> dict[str, Any]:
    """A message as an object."""
    found = _split(data)
    return {
        name: _value(found[number], kind, nullable) for number, (name, kind) in enumerate(fields, 1)
    }


def _number(value: int) -> bytes:
    value &= (1 << 64) - 1
    digits = []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def _block(number: int, content: bytes) -> bytes:
    return _number(number << 3 | _BLOCK) + _number(len(content)) + content


def _bare(value: Any, kind: SqlType) -> bytes:
    match kind:
        case t.DOUBLE:
            return struct.pack("<d", float(value))
        case t.STRING:
            return str(value).encode()
        case t.BYTES:
            return base64.b64decode(value)
    return _number(int(value))


def _scalar(number: int, value: Any, kind: SqlType) -> bytes:
    if kind in (t.STRING, t.BYTES):
        return _block(number, _bare(value, kind))
    return _number(number << 3 | (_EIGHT if kind is t.DOUBLE else _NUMBER)) + _bare(value, kind)


def _field(number: int, value: Any, kind: SqlType, nullable: str) -> bytes:
    if value is None:
        return b""
    match kind:
        case t.Array(element):
            return b"".join(_element(number, member, element) for member in value)
        case t.Map(key, member):
            pairs: Fields = (("KEY", key), ("VALUE", member))
            entries = ({"KEY": k, "VALUE": v} for k, v in value.items())
            return b"".join(_block(number, write_message(e, pairs)) for e in entries)
    if kind not in _ZERO:
        return _block(number, _composite(value, kind, nullable))
    if nullable == "WRAPPER":
        return _block(number, _scalar(1, value, kind))
    return _scalar(number, value, kind)


def _element(number: int, value: Any, kind: SqlType) -> bytes:
    if kind in _ZERO:
        return _scalar(number, value, kind)
    return _block(number, _composite(value, kind, ""))


def _composite(value: Any, kind: SqlType, nullable: str) -> bytes:
    match kind:
        case t.Struct(fields):
            return write_message(value, tuple((f.name, f.type) for f in fields), nullable)
        case t.Decimal(precision, scale):
            whole = int(Decimal(value).scaleb(scale, Context(prec=200)).to_integral_value())
            size = whole.bit_length() // 8 + 1
            content = _block(1, whole.to_bytes(size, "big", signed=True))
            return content + _scalar(2, precision, t.INTEGER) + _scalar(3, scale, t.INTEGER)
        case t.DATE:
            day = _EPOCH + datetime.timedelta(days=int(value))
            parts = [day.year, day.month, day.day]
        case t.TIME:
            seconds, rest = divmod(int(value), 1000)
            parts = [seconds // 3600, seconds // 60 % 60, seconds % 60, rest * 1_000_000]
        case t.TIMESTAMP:
            seconds, rest = divmod(int(value), 1000)
            parts = [seconds, rest * 1_000_000]
        case _:
            raise NotImplementedError(f"{kind} in Protobuf")
    return b"".join(_scalar(number, part, t.BIGINT) for number, part in enumerate(parts, 1))


def _take_number(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        result |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return (result - (1 << 64) if result >> 63 else result), at


def _split(data: bytes) -> dict[int, list[Any]]:
    """The raw contents of each field, in order: numbers, or bytes."""
    found: dict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(data):
        head, at = _take_number(data, at)
        match head & 7:
            case 0:
                content, at = _take_number(data, at)
                found[head >> 3].append(content)
            case 1:
                found[head >> 3].append(data[at : at + 8])
                at += 8
            case 2:
                size, at = _take_number(data, at)
                found[head >> 3].append(data[at : at + size])
                at += size
            case other:
                raise ValueError(f"wire type {other}")
    return found


def _value(contents: list[Any], kind: SqlType, nullable: str) -> Any:
    match kind:
        case t.Array(element):
            return [_shown(content, element) for content in _unpacked(contents, element)]
        case t.Map(key, member):
            pairs: Fields = (("KEY", key), ("VALUE", member))
            entries = [read_message(content, pairs) for content in contents]
            return {entry["KEY"]: entry["VALUE"] for entry in entries}
    if not contents:
        return None if nullable or kind not in _ZERO else _ZERO[kind]
    if nullable == "WRAPPER" and kind in _ZERO:
        return _value(_split(contents[-1])[1], kind, "")
    return _shown(contents[-1], kind, nullable)


def _unpacked(contents: list[Any], kind: SqlType) -> list[Any]:
    """Numbers of a repeated field may lie together in one block."""
    if kind in (t.STRING, t.BYTES) or kind not in _ZERO:
        return contents
    result: list[Any] = []
    for content in contents:
        if kind is t.DOUBLE:
            result += [content[at : at + 8] for at in range(0, len(content), 8)]
        elif isinstance(content, bytes):
            at = 0
            while at < len(content):
                number, at = _take_number(content, at)
                result.append(number)
        else:
            result.append(content)
    return result


def _shown(content: Any, kind: SqlType, nullable: str = "") -> Any:
    """The value of one field as case files show it."""
    match kind:
        case t.BOOLEAN:
            return bool(content)
        case t.DOUBLE:
            return struct.unpack("<d", content)[0]
        case t.STRING:
            return content.decode()
        case t.BYTES:
            return base64.b64encode(content).decode()
        case t.Struct(fields):
            return read_message(content, tuple((f.name, f.type) for f in fields), nullable)
        case t.Decimal():
            parts = _split(content)
            whole = int.from_bytes(parts[1][-1] if parts[1] else b"", "big", signed=True)
            scale = parts[3][-1] if parts[3] else 0
            return Decimal(whole).scaleb(-scale, Context(prec=200))
        case t.DATE | t.TIME | t.TIMESTAMP:
            parts = _split(content)
            first, *rest = (parts[number][-1] if parts[number] else 0 for number in (1, 2, 3, 4))
            if kind is t.DATE:
                return (datetime.date(first, rest[0], rest[1]) - _EPOCH).days
            if kind is t.TIMESTAMP:
                return first * 1000 + rest[0] // 1_000_000
            return (first * 3600 + rest[0] * 60 + rest[1]) * 1000 + rest[2] // 1_000_000
    return content

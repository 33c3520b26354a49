"""Bytes of test records, written and read without the engine's own formats."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any

from millstream.catalog.source import Format
from millstream.model import types as t
from millstream.model.schema import Column, WindowedKey, WindowKind
from tests.conformance.protobuf import read_message, write_message

_KAFKA = {t.INTEGER: ">i", t.BIGINT: ">q", t.DOUBLE: ">d"}


def json_text(value: Any) -> str:
    """Compact JSON with exact decimals, fields in order."""
    match value:
        case Decimal():
            return str(value)
        case dict():
            members = (f"{json.dumps(str(k))}:{json_text(v)}" for k, v in value.items())
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(json_text(member) for member in value) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def encode(value: Any, form: Format, columns: tuple[Column, ...]) -> bytes | None:
    """A key or value of the case as the bytes a producer would have written."""
    if value is None:
        return None
    match form.name:
        case "NONE":
            return str(value).encode()
        case "DELIMITED":
            return str(value).encode()
        case "KAFKA":
            return _kafka(value, columns)
        case "JSON":
            return json_text(value).encode()
        case "PROTOBUF_NOSR":
            return write_message(value, _fields(columns), _nullable(form))
    raise NotImplementedError(f"format {form.name}")


def _kafka(value: Any, columns: tuple[Column, ...]) -> bytes:
    column_type = columns[0].type if len(columns) == 1 else t.STRING
    if column_type in _KAFKA and not isinstance(value, str):
        number = float(value) if column_type is t.DOUBLE else int(value)
        return struct.pack(_KAFKA[column_type], number)
    return (value if isinstance(value, str) else json_text(value)).encode()


def decode(data: bytes | None, form: Format, columns: tuple[Column, ...]) -> Any:
    """What the engine wrote, as a comparable value: JSON values, text or a primitive."""
    if data is None:
        return None
    match form.name:
        case "NONE":
            return None
        case "DELIMITED":
            return data.decode()
        case "JSON":
            return json.loads(data, parse_float=Decimal)
        case "KAFKA":
            column_type = columns[0].type if columns else t.STRING
            if column_type in _KAFKA:
                return struct.unpack(_KAFKA[column_type], data)[0]
            return data.decode()
        case "PROTOBUF_NOSR":
            return read_message(data, _fields(columns), _nullable(form))
    raise NotImplementedError(f"format {form.name}")


def _fields(columns: tuple[Column, ...]) -> tuple[tuple[str, t.SqlType], ...]:
    return tuple((column.name, column.type) for column in columns)


def _nullable(form: Format) -> str:
    return form.properties.get("nullableRepresentation", "").upper()


def window_suffix(window: dict[str, Any]) -> bytes:
    """The bytes a windowed key ends with."""
    if window["type"] == "session":
        return struct.pack(">qq", window["end"], window["start"])
    return struct.pack(">q", window["start"])


def split_window(
    key: bytes | None, windowed: WindowedKey | None
) -> tuple[bytes | None, dict[str, Any] | None]:
    """A windowed key's inner bytes and its window."""
    if key is None or windowed is None:
        return key, None
    if windowed.kind is WindowKind.SESSION:
        end, start = struct.unpack(">qq", key[-16:])
        return key[:-16], {"type": "session", "start": start, "end": end}
    (start,) = struct.unpack(">q", key[-8:])
    size = windowed.size_ms or 0
    return key[:-8], {"type": "time", "start": start, "end": start + size}

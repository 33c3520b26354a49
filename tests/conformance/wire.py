"""Bytes of test records, written and read without the engine's own formats."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any

from millstream.catalog.source import Format
from millstream.model import types as t
from millstream.model.schema import Column
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

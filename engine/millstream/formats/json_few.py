"""Writes the JSON of a few records, for which a statement would cost more."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from millstream.formats.payload import Layout
from millstream.model.java_number import java_double
from millstream.model.types import Decimal, Primitive, SqlType

FEW_ROWS = 16
_TEMPORAL = {
    Primitive.DATE: (pa.int32(), 1),
    Primitive.TIME: (pa.int64(), 1000),
    Primitive.TIMESTAMP: (pa.int64(), 1000),
}


def write_few(columns: list[pa.Array], layout: Layout) -> pa.Array | None:
    """The result of `write_json`, or None for nested columns, which need SQL."""
    texts = []
    for column, array in zip(layout.columns, columns, strict=True):
        text = _writer(column.type)
        if text is None:
            return None
        values = _plain(array, column.type).to_pylist()
        texts.append([None if value is None else text(value) for value in values])
    if not layout.wrapped:
        return pa.array([None if text is None else text.encode() for text in texts[0]], pa.binary())
    names = [json.dumps(column.name, ensure_ascii=False) for column in layout.columns]
    rows = []
    for row in zip(*texts, strict=True):
        fields = (f"{name}:{text or 'null'}" for name, text in zip(names, row, strict=True))
        rows.append(f"{{{','.join(fields)}}}".encode())
    return pa.array(rows, pa.binary())


def _plain(array: pa.Array, sql_type: SqlType) -> pa.Array:
    """Times as the whole numbers that are written: days, or truncated microseconds."""
    if sql_type in _TEMPORAL:
        return array.cast(_TEMPORAL[sql_type][0])
    return array


def _writer(sql_type: SqlType) -> Callable[[Any], str] | None:
    match sql_type:
        case Decimal():
            return _decimal_text
        case Primitive.STRING:
            return _string_text
        case Primitive.DOUBLE:
            return _double_text
        case Primitive.BOOLEAN:
            return _boolean_text
        case Primitive.INTEGER | Primitive.BIGINT | Primitive.DATE:
            return str
        case Primitive.TIME | Primitive.TIMESTAMP:
            return _millisecond_text
        case Primitive.BYTES:
            return _bytes_text
    return None


def _string_text(value: str) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if "\\u00" not in text else _upper_escapes(value)


def _upper_escapes(value: str) -> str:
    """Control characters as DuckDB writes them: `\\u001F`."""
    parts = (json.dumps(char, ensure_ascii=False)[1:-1] for char in value)
    escaped = (part[:2] + part[2:].upper() if part.startswith("\\u") else part for part in parts)
    return f'"{"".join(escaped)}"'


def _double_text(value: float) -> str:
    text = java_double(value)
    return text if text[-1].isdigit() else f'"{text}"'


def _decimal_text(value: Any) -> str:
    return format(value, "f")


def _boolean_text(value: bool) -> str:
    return "true" if value else "false"


def _millisecond_text(value: int) -> str:
    return str(value // 1000)


def _bytes_text(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'

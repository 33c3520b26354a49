"""Encodes keys and values of JSON test files as the bytes of a topic, and decodes them."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from millstream.catalog.source import Format
from millstream.model import types as t
from millstream.model.errors import StatementError
from millstream.model.schema import Column, WindowedKey, WindowKind

_KAFKA: dict[t.SqlType, str] = {t.INTEGER: ">i", t.BIGINT: ">q", t.DOUBLE: ">d"}
_BOUND = 8
"""The size of a time in a windowed key, in bytes."""


def json_text(value: Any) -> str:
    """A value as JSON on one line, numbers in their original notation."""
    match value:
        case Decimal():
            return str(value)
        case dict():
            members = (f"{json.dumps(str(k))}: {json_text(v)}" for k, v in value.items())
            return "{" + ", ".join(members) + "}"
        case list():
            return "[" + ", ".join(map(json_text, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def encode(value: Any, form: Format, columns: Sequence[Column]) -> bytes | None:
    """Encode a value as a producer would. Raises StatementError for an unsupported format."""
    if value is None:
        return None
    match form.name:
        case "JSON":
            return json_text(value).encode()
        case "DELIMITED" | "NONE":
            return str(value).encode()
        case "KAFKA":
            layout = _layout(columns)
            if layout is None or isinstance(value, str):
                return (value if isinstance(value, str) else json_text(value)).encode()
            return struct.pack(layout, float(value) if layout == ">d" else int(value))
        case name:
            raise _unwritable(name)


def decode(data: bytes | None, form: Format, columns: Sequence[Column]) -> Any:
    """Decode bytes to the value of a JSON test file. Raises StatementError for an unsupported
    format."""
    if data is None:
        return None
    match form.name:
        case "JSON":
            return json.loads(data, parse_float=Decimal)
        case "DELIMITED":
            return data.decode()
        case "NONE":
            return None
        case "KAFKA":
            layout = _layout(columns)
            if layout is None or len(data) != struct.calcsize(layout):
                return data.decode()
            return struct.unpack(layout, data)[0]
        case name:
            raise _unwritable(name)


def _layout(columns: Sequence[Column]) -> str | None:
    return _KAFKA.get(columns[0].type) if len(columns) == 1 else None


def _unwritable(name: str) -> StatementError:
    return StatementError(
        f"Records of the format {name} cannot be written in a JSON test file",
        hint="JSON, DELIMITED, KAFKA and NONE can. Use INSERT INTO and ASSERT VALUES instead.",
    )


def window_suffix(window: dict[str, Any]) -> bytes:
    """The bytes of the window at the end of a windowed key."""
    if str(window["type"]).upper() == WindowKind.SESSION.value:
        return struct.pack(">qq", window["end"], window["start"])
    return struct.pack(">q", window["start"])


def split_window(
    key: bytes | None, windowed: WindowedKey | None
) -> tuple[bytes | None, dict[str, Any] | None]:
    """Split a windowed key into the key and its window."""
    if key is None or windowed is None:
        return key, None
    if windowed.kind is WindowKind.SESSION:
        end, start = struct.unpack(">qq", key[-2 * _BOUND :])
        return key[: -2 * _BOUND], {"start": start, "end": end, "type": "session"}
    (start,) = struct.unpack(">q", key[-_BOUND:])
    window = {"start": start, "end": start + (windowed.size_ms or 0), "type": "time"}
    return key[:-_BOUND], window

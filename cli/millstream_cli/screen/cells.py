"""Values as text."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from typing import Any

from rich.cells import cell_len, set_cell_size

NULL = "null"


def cell(value: Any) -> str:
    """One value in the shell's format."""
    match value:
        case None:
            return NULL
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.datetime():
            return value.isoformat(timespec="milliseconds")
        case list() | dict():
            return to_json(value)
        case _:
            return str(value)


def is_number(value: Any) -> bool:
    """Whether a value is right-aligned."""
    return isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON text of a value of the dialect, with every digit of a DECIMAL. A DOUBLE that is no
    number is a string, as in the HTTP API. `indent`: as for json.dumps."""
    return _written(value, indent, 0)


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Text padded to a width in cells of the terminal; wider text stays unchanged."""
    room = width - cell_len(text)
    if room <= 0:
        return text
    return " " * room + text if right else text + " " * room


def clipped(text: str, width: int) -> str:
    """Text that is cut to end in `...` if it does not fit."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(width - 3, 0)).rstrip() + "..."[:width]


def _written(value: Any, indent: int | None, depth: int) -> str:
    # The encoder of the library writes only numbers of Python's own types.
    match value:
        case dict():
            members = (
                f"{_text(str(name))}: {_written(item, indent, depth + 1)}"
                for name, item in value.items()
            )
            return _bracketed("{}", list(members), indent, depth)
        case list() | tuple():
            items = [_written(item, indent, depth + 1) for item in value]
            return _bracketed("[]", items, indent, depth)
        case decimal.Decimal() if value.is_finite():
            return format(value, "f")
        case float() if not math.isfinite(value):
            return f'"{"NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}"'
        case None | bool() | int() | float() | str():
            return _text(value)
        case bytes():
            return _text(base64.b64encode(value).decode())
        case datetime.date() | datetime.time():
            return _text(value.isoformat())
    return _text(str(value))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _bracketed(ends: str, parts: list[str], indent: int | None, depth: int) -> str:
    if not parts or indent is None:
        return f"{ends[0]}{', '.join(parts)}{ends[1]}"
    line = "\n" + " " * (indent * (depth + 1))
    last = "\n" + " " * (indent * depth)
    return f"{ends[0]}{line}{f',{line}'.join(parts)}{last}{ends[1]}"

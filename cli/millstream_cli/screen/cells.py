"""Values as text."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
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
    """JSON text of a value of the dialect."""
    return json.dumps(value, default=_plain, ensure_ascii=False, indent=indent)


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


def _plain(value: Any) -> Any:
    match value:
        case decimal.Decimal():
            return float(value) if value.as_tuple().exponent else int(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.date() | datetime.time():
            return value.isoformat()
        case _:
            return str(value)

"""One row as JSON text, for the processing log."""

from __future__ import annotations

import base64
import datetime
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

from millstream.model.python_values import python_values


def row_text(table: pa.Table, row: int) -> str:
    """A JSON array of the row's columns, without the engine's own, which begin with $."""
    columns = [table[name].slice(row, 1) for name in table.column_names if name[0] != "$"]
    return f"[{','.join(_text(_value(column)) for column in columns)}]"


def _value(column: pa.ChunkedArray) -> Any:
    try:
        return column.to_pylist(maps_as_pydicts="lossy")[0]
    except OverflowError:
        return python_values(column)[0]


def _text(value: Any) -> str:
    match value:
        case float() if not math.isfinite(value):
            return '"NaN"' if math.isnan(value) else f'"{"-" * (value < 0)}Infinity"'
        case Decimal():
            return format(value, "f")
        case bytes():
            return f'"{base64.b64encode(value).decode()}"'
        case datetime.datetime() | datetime.time():
            return f'"{value.isoformat(timespec="milliseconds")}"'
        case datetime.date():
            return f'"{value.isoformat()}"'
        case list() | tuple():
            return f"[{','.join(map(_text, value))}]"
        case dict():
            pairs = (f"{json.dumps(str(key))}:{_text(item)}" for key, item in value.items())
            return f"{{{','.join(pairs)}}}"
    return json.dumps(value, ensure_ascii=False)

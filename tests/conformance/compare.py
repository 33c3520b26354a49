"""When a record the engine wrote counts as the expected one (the suite's comparison rules)."""

from __future__ import annotations

import base64
import math
from decimal import Decimal, InvalidOperation
from typing import Any

from millstream.model import types as t
from millstream.model.types import SqlType


def difference(expected: Any, actual: Any, column_type: SqlType | None = None) -> str | None:
    """None when equal, else a sentence. `column_type` determines how numbers are compared."""
    if expected is None or actual is None:
        return None if expected is actual else f"expected {expected!r}, got {actual!r}"
    match column_type:
        case t.Struct(fields) if isinstance(actual, dict):
            return _object(expected, actual, {field.name: field.type for field in fields})
        case t.Map(_, value) if isinstance(actual, dict):
            return _object(expected, actual, dict.fromkeys(actual, value))
        case t.Array(element) if isinstance(actual, list):
            return _array(expected, actual, element)
    return _plain(expected, actual, column_type)


def row_difference(
    expected: Any, actual: Any, columns: tuple[tuple[str, SqlType], ...]
) -> str | None:
    """Compare a whole key or value; `columns` are its columns (a lone one may be unwrapped)."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        by_name = dict(columns)
        if len(columns) == 1 and columns[0][0] not in actual:
            return difference(expected, actual, columns[0][1])
        return _object(expected, actual, by_name)
    return difference(expected, actual, columns[0][1] if len(columns) == 1 else None)


def _object(expected: Any, actual: dict[str, Any], types: dict[str, SqlType]) -> str | None:
    if not isinstance(expected, dict):
        return f"expected {expected!r}, got an object"
    if len(expected) != len(actual):
        return f"expected the fields {sorted(expected)}, got {sorted(actual)}"
    for name, wanted in expected.items():
        found = name if name in actual else name.upper()
        if found not in actual:
            if wanted is None:
                continue
            return f"field {name} is missing"
        problem = difference(wanted, actual[found], types.get(found))
        if problem:
            return f"{name}: {problem}"
    return None


def _array(expected: Any, actual: list[Any], element: SqlType) -> str | None:
    if not isinstance(expected, list) or len(expected) != len(actual):
        return f"expected {expected!r}, got {actual!r}"
    for index, (wanted, got) in enumerate(zip(expected, actual, strict=True)):
        problem = difference(wanted, got, element)
        if problem:
            return f"[{index}]: {problem}"
    return None


def _plain(expected: Any, actual: Any, column_type: SqlType | None) -> str | None:
    mismatch = f"expected {expected!r}, got {actual!r}"
    if isinstance(expected, bool) or isinstance(actual, bool):
        return None if expected is actual else mismatch
    if isinstance(expected, dict) and isinstance(actual, dict):
        return _object(expected, actual, {})
    if isinstance(expected, list) and isinstance(actual, list):
        return _array(expected, actual, t.NULL)
    if isinstance(actual, str):
        return None if expected == actual else mismatch
    if isinstance(actual, bytes):
        return None if expected == base64.b64encode(actual).decode() else mismatch
    if isinstance(actual, (int, float, Decimal)):
        return None if _same_number(expected, actual, column_type) else mismatch
    return None if expected == actual else mismatch


def _same_number(expected: Any, actual: int | float | Decimal, column_type: SqlType | None) -> bool:
    if isinstance(expected, str):
        try:
            wanted = Decimal(expected)
        except InvalidOperation:
            return False
        return isinstance(column_type, t.Decimal) and _same_decimal(wanted, actual)
    if column_type in (t.INTEGER, t.BIGINT):
        return isinstance(actual, int) and int(expected) == actual
    if isinstance(column_type, t.Decimal):
        return _same_decimal(Decimal(expected), actual)
    if column_type is t.DOUBLE:
        wanted_double, got = float(expected), float(actual)
        return wanted_double == got or (math.isnan(wanted_double) and math.isnan(got))
    return Decimal(expected) == Decimal(actual)


def _same_decimal(wanted: Decimal, actual: int | float | Decimal) -> bool:
    got = Decimal(actual)
    return wanted == got and _scale(wanted) == _scale(got)


def _scale(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0

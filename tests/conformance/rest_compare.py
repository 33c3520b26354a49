"""When an answer over HTTP counts as the expected one (the suite's rules)."""

from __future__ import annotations

import base64
import re
from decimal import Decimal
from typing import Any

from millstream.model import types as t
from tests.conformance.protobuf import read_message

_FIELD = re.compile(r"^  (\w+) (\w+) = \d+;$", re.MULTILINE)
_TYPES = {
    "bool": t.BOOLEAN,
    "int32": t.INTEGER,
    "int64": t.BIGINT,
    "double": t.DOUBLE,
    "string": t.STRING,
    "bytes": t.BYTES,
}


def response_difference(expected: dict[str, Any], actual: Any, what: str) -> str:
    """ "" when the response is as expected, else a sentence."""
    ((kind, wanted),) = expected.items()
    match kind:
        case "admin":
            missing = [name for name in wanted if actual.get(name) != wanted[name]]
            return f"mismatch: {what}: {missing} in {actual}" if missing else ""
        case "query":
            return _rows_difference(wanted, actual, what)
        case "queryProto":
            return _rows_difference(wanted, _as_text(actual), what)
    return f"mismatch: {what}: unknown kind {kind}"


def _rows_difference(expected: list[Any], actual: list[Any], what: str) -> str:
    mismatch = f"mismatch: {what}: expected {expected}, got {actual}"
    if len(expected) != len(actual):
        return mismatch
    left = [row for row in actual if "row" in row]
    for position, row in enumerate(expected):
        if "row" in row:
            found = next((other for other in left if _same(row, other)), None)
            if found is None:
                return f"{mismatch}: no {row}"
            left.remove(found)
        elif not _same(row, actual[position]):
            return f"{mismatch}: no {row}"
    return ""


def _same(expected: Any, actual: Any) -> bool:
    """Whether the listed fields are equal; numbers as JSON shows them."""
    match expected:
        case dict():
            return isinstance(actual, dict) and all(
                str(actual.get(name.partition("|")[0], "")).startswith(value)
                if name.endswith("|starts_with")
                else _same(value, actual.get(name))
                for name, value in expected.items()
            )
        case list():
            return (
                isinstance(actual, list)
                and len(expected) == len(actual)
                and all(_same(*pair) for pair in zip(expected, actual, strict=True))
            )
        case bool() | None | str():
            return expected is actual or (isinstance(expected, str) and expected == actual)
        case int():
            return isinstance(actual, int) and not isinstance(actual, bool) and expected == actual
        case Decimal():
            return isinstance(actual, Decimal) and expected == actual and _scaled(expected, actual)
    return False


def _scaled(expected: Decimal, actual: Decimal) -> bool:
    """The same digits behind the point, unless one is written with an exponent."""
    one, other = expected.as_tuple().exponent, actual.as_tuple().exponent
    return one == other or "E" in str(expected) or "E" in str(actual)


def _as_text(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages in protobuf's text form, of scalar fields."""
    schema = rows[0]["header"]["protoSchema"]
    fields = tuple((name, _TYPES.get(kind, t.STRING)) for kind, name in _FIELD.findall(schema))
    found: list[dict[str, Any]] = []
    for row in rows:
        if "row" not in row:
            found.append(row)
            continue
        message = read_message(base64.b64decode(row["row"]["protobufBytes"]), fields)
        found.append({"row": "".join(_line(name, kind, message[name]) for name, kind in fields)})
    return found


def _line(name: str, kind: Any, value: Any) -> str:
    if kind is t.BYTES and isinstance(value, str):
        value = base64.b64decode(value).decode("latin-1")
    if value in (None, "", 0, False):
        return ""
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return f"{name}: {shown}\n"

"""Values of Python as literals of a statement that a server executes."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from millstream.model.errors import StatementError

TypeOf = Mapping[str, Any]
"""A type in the API's form: {"type": "ARRAY", "memberSchema": …}."""


def literal(value: Any, kind: TypeOf) -> str:
    """The text that stands for a value of a column of this type. Raises StatementError."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return format(value, "f") if isinstance(value, Decimal) else str(value)
        case float():
            return _double(value)
        case str():
            return _quoted(value)
        case bytes() | bytearray() | memoryview():
            return _quoted(base64.b64encode(value).decode())
        case dt.datetime() | dt.date() | dt.time():
            return _quoted(time_text(value))
        case Mapping():
            return _mapping(value, kind)
        case Sequence():
            member = kind.get("memberSchema") or {}
            return f"ARRAY[{', '.join(literal(one, member) for one in value)}]"
    if hasattr(value, "item"):
        return literal(value.item(), kind)  # A scalar of NumPy.
    raise StatementError(f"A value of type {type(value).__name__} cannot be sent to a server")


def time_text(value: dt.date | dt.time) -> str:
    """A date, a time, or a moment, in UTC, as text in the form of the dialect."""
    if isinstance(value, dt.datetime):
        moment = value.astimezone(dt.UTC) if value.tzinfo is not None else value
        return moment.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return value.isoformat()


def _mapping(value: Mapping[Any, Any], kind: TypeOf) -> str:
    if kind.get("type") == "MAP":
        member = kind.get("memberSchema") or {}
        pairs = (f"{literal(k, {})} := {literal(v, member)}" for k, v in value.items())
        return f"MAP({', '.join(pairs)})"
    types = {field["name"]: field.get("schema") or {} for field in kind.get("fields") or ()}
    fields = []
    for name, item in value.items():
        known = name if name in types else str(name).upper()
        quoted = known.replace("`", "``")
        fields.append(f"`{quoted}` := {literal(item, types.get(known, {}))}")
    return f"STRUCT({', '.join(fields)})"


def _double(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return f"CAST({_quoted(str(value))} AS DOUBLE)"
    shown = repr(value)
    return shown if "e" in shown else f"{shown}E0"


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"

"""Values of Python as literals of a statement that a server executes."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from millstream.model.errors import StatementError
from millstream_parser import literal_text
from millstream_parser.names import quote

TypeOf = Mapping[str, Any]
"""A type in the API's form: {"type": "ARRAY", "memberSchema": …}."""


def literal(value: Any, kind: TypeOf) -> str:
    """The text that stands for a value of a column of this type. Raises StatementError for a value
    that has none."""
    match value:
        case bytes() | bytearray() | memoryview():
            return literal_text(base64.b64encode(value).decode())
        case Mapping():
            return _mapping(value, kind)
        case Sequence() if kind.get("type") == "MAP" and not isinstance(value, str):
            # Arrow's maps are pairs of keys and values.
            try:
                return _mapping(dict(value), kind)
            except (TypeError, ValueError):
                raise StatementError("A MAP is a mapping, or pairs of keys and values") from None
        case Sequence() if not isinstance(value, str):
            member = kind.get("memberSchema") or {}
            return f"ARRAY[{', '.join(literal(one, member) for one in value)}]"
    if hasattr(value, "tolist"):
        return literal(value.tolist(), kind)  # Of NumPy.
    try:
        return literal_text(value)
    except ValueError as error:
        raise StatementError(f"A value cannot be sent to a server: {error}") from None


def _mapping(value: Mapping[Any, Any], kind: TypeOf) -> str:
    if kind.get("type") == "MAP":
        member = kind.get("memberSchema") or {}
        pairs = (f"{literal(k, {})} := {literal(v, member)}" for k, v in value.items())
        return f"MAP({', '.join(pairs)})"
    types = {field["name"]: field.get("schema") or {} for field in kind.get("fields") or ()}
    fields = []
    for name, item in value.items():
        known = name if name in types else str(name).upper()
        fields.append(f"{quote(known)} := {literal(item, types.get(known, {}))}")
    return f"STRUCT({', '.join(fields)})"

"""Patterns of JSON text that is certainly valid for the type of an unread column.

A record whose text is invalid for its columns is bad, whichever of them a query uses. Text that
matches these patterns is valid; the exact reader decides on all other text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from millstream.formats.json_tokens import ANY_SCALAR, GAP, TEXT, NoShapeError, scalar_token
from millstream.model.schema import Column
from millstream.model.types import Array, Decimal, Field, Map, Primitive, SqlType, Struct

_VARIANTS_MAX = 6
_DEPTH_MAX = 3
_NEVER = r"[^\s\S]"
BOUNDS: Mapping[SqlType, tuple[int, int]] = {
    Primitive.INTEGER: (1 - 2**31, 2**31 - 1),
    Primitive.BIGINT: (1 - 2**63, 2**63 - 1),
    Primitive.DATE: (1 - 2**31, 2**31 - 1),
    Primitive.TIME: (0, 86_399_999),
    Primitive.TIMESTAMP: (1 - 2**63 // 1000, 2**63 // 1000 - 1),
}
"""Whole numbers that are certainly valid, by type."""


class Pairs(tuple[tuple[str, Any], ...]):
    """A parsed JSON object: its fields in order, repeated ones included."""


def readers(keys: Sequence[str], columns: Sequence[Column | Field]) -> dict[int, int]:
    """For each field of a record that belongs to a column, the indexes of both. Raises NoShapeError
    if the same names may refer to another field in another record."""
    if len(set(keys)) != len(keys):
        raise NoShapeError
    found: dict[int, int] = {}
    for number, column in enumerate(columns):
        matches = [index for index, key in enumerate(keys) if column.name in (key, key.upper())]
        if len(matches) > 1:
            raise NoShapeError
        for place in matches:
            # "A" and "a" may both be read from the field "a".
            if place in found:
                raise NoShapeError
            found[place] = number
    return found


def proof(value: Any, sql_type: SqlType) -> str:
    """A pattern of valid text for the type, learnt from a sample: its field names in any order."""
    match sql_type:
        case Struct(members):
            if value is None:
                return "null"
            if not isinstance(value, Pairs):
                raise NoShapeError
            return f"(?:null|{_any_fields(value, members)})"
        case Array(element):
            if value is not None and (not isinstance(value, list) or isinstance(value, Pairs)):
                raise NoShapeError
            return f"(?:null|{list_of(_items(value or (), element))})"
        case Map(_, member):
            if value is not None and not isinstance(value, Pairs):
                raise NoShapeError
            return f"(?:null|{map_of(_items([item for _, item in value or ()], member))})"
        case Primitive.STRING:
            return any_value(value)
    token = scalar_proof(sql_type, quoted=isinstance(value, str))
    return f'(?:null|"(?:{token})")' if isinstance(value, str) else f"(?:null|{token})"


def scalar_proof(sql_type: SqlType | None, *, quoted: bool) -> str:
    """A pattern of a value that is not nested, except `null`: any value if it belongs to no column.
    For a text, without its quotes."""
    if sql_type is None or sql_type is Primitive.STRING:
        return r'[^"\\\x00-\x1f]*' if quoted else ANY_SCALAR
    match sql_type:
        case Array() | Map() | Struct():
            return _NEVER
        case Decimal(precision, scale):
            whole = f"(?:0|[1-9][0-9]{{0,{precision - scale - 1}}})" if precision > scale else "0"
            return f"-?{whole}" + (rf"(?:\.[0-9]{{1,{scale}}})?" if scale else "")
        case Primitive.BYTES:
            return scalar_token(sql_type).strip('"') if quoted else _NEVER
        case Primitive.DOUBLE:
            return r"-?[0-9]+(?:\.[0-9]+)?" if quoted else scalar_token(sql_type)
        case Primitive.BOOLEAN:
            return _NEVER if quoted else scalar_token(sql_type)
    low, high = BOUNDS[sql_type]
    return f"(?:-0|{_up_to(high)})" if low == 0 else f"-?{_up_to(high)}"


def _up_to(limit: int) -> str:
    """Whole numbers from 0 to the limit."""
    digits = str(limit)
    ways = ["0", f"[1-9][0-9]{{0,{len(digits) - 2}}}", digits]
    for place, digit in enumerate(digits):
        lowest = 0 if place else 1
        if int(digit) > lowest:
            rest = f"[0-9]{{{len(digits) - place - 1}}}"
            ways.append(f"{digits[:place]}[{lowest}-{int(digit) - 1}]{rest}")
    return f"(?:{'|'.join(ways)})"


def _any_fields(value: Pairs, members: Sequence[Field]) -> str:
    places = readers([key for key, _ in value], members)
    entries = []
    for index, (key, item) in enumerate(value):
        own = proof(item, members[places[index]].type) if index in places else any_value(item)
        entries.append(f"{name_token(key)}{GAP}:{GAP}{own}")
    entry = f"(?:{'|'.join(entries)})"
    inside = f"(?:{entry}(?:{GAP},{GAP}{entry})*)?" if entries else ""
    return rf"\{{{GAP}{inside}{GAP}\}}"


def _items(values: Sequence[Any], sql_type: SqlType) -> str:
    patterns = dict.fromkeys(proof(value, sql_type) for value in (values or (None,)))
    if len(patterns) > _VARIANTS_MAX:
        raise NoShapeError
    return f"(?:{'|'.join(patterns)})"


def any_value(value: Any) -> str:
    """Any value that is nested no deeper than this one."""
    return _generic(_depth(value))


def _depth(value: Any) -> int:
    match value:
        case Pairs():
            return 1 + max((_depth(item) for _, item in value), default=0)
        case list():
            return 1 + max(map(_depth, value), default=0)
    return 0


def _generic(depth: int) -> str:
    if depth > _DEPTH_MAX:
        raise NoShapeError
    if depth == 0:
        return ANY_SCALAR
    inner = _generic(depth - 1)
    return f"(?:{ANY_SCALAR}|{list_of(inner)}|{map_of(inner)})"


def list_of(item: str) -> str:
    """Arrays of such items."""
    return rf"\[{GAP}(?:{item}(?:{GAP},{GAP}{item})*)?{GAP}\]"


def map_of(item: str) -> str:
    """Objects of such items."""
    entry = f"{TEXT}{GAP}:{GAP}{item}"
    return rf"\{{{GAP}(?:{entry}(?:{GAP},{GAP}{entry})*)?{GAP}\}}"


def name_token(key: str) -> str:
    """The name of a field; raises NoShapeError if it may be spelt in several ways."""
    if any(char in '"\\' or char < " " for char in key) or not key.isascii():
        raise NoShapeError
    return f'"{re.escape(key)}"'

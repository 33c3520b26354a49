"""Which of several types a JSON value has, where a schema allows them: the rules of Kafka Connect's
converter for JSON Schema, by the kind of the value and by the names that an object has."""

from __future__ import annotations

from decimal import Decimal as Number
from typing import Any

from millstream.model.errors import RecordError
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    SqlType,
    Struct,
)

_WHOLE = (INTEGER, BIGINT, DATE, TIME, TIMESTAMP)
_INTEGERS = range(-(2**31), 2**31)


def chosen(value: Any, alternatives: Struct) -> Field:
    """The member of a struct that has a value. The first one whose type it is; of structs, the one
    with the most of its names; a whole number may be one with digits after the point. Raises
    RecordError for a value that none can have."""
    for field in alternatives.fields:
        if _is_of(value, field.type):
            return field
    best, most = None, 0
    for field in alternatives.fields:
        fits = _fitting(value, field.type)
        if fits > most:
            best, most = field, fits
    if best is None:
        raise RecordError(
            f"a value is none of {', '.join(str(f.type) for f in alternatives.fields)}"
        )
    return best


def _is_of(value: Any, kind: SqlType) -> bool:
    match value:
        case bool():
            return kind == BOOLEAN
        case int():
            return kind in _WHOLE and (kind != INTEGER or value in _INTEGERS)
        case float() | Number():
            return kind == DOUBLE or isinstance(kind, Decimal)
        case str():
            return kind in (STRING, BYTES)
        case list():
            return isinstance(kind, Array)
        case dict():
            return isinstance(kind, Map)
    return False


def _fitting(value: Any, kind: SqlType) -> int:
    """How well a value fits that is not of a type by its kind alone; 0: not at all."""
    match value, kind:
        case int(), _ if not isinstance(value, bool):
            return int(kind == DOUBLE or isinstance(kind, Decimal))
        case dict(), Struct(fields):
            names = {name.upper() for name in value}
            return 1 + sum(field.name.upper() in names for field in fields)
        case list(), Map():
            # The entries of a map.
            return 1
    return 0

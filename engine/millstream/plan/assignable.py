"""Which types a column accepts without an explicit conversion (reference: types, section 2)."""

from __future__ import annotations

from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Map,
    SqlType,
    Struct,
)

_FROM_STRING = (DATE, TIME, TIMESTAMP, BYTES)
_DIGITS = {INTEGER: 10, BIGINT: 19}


def assignable(source: SqlType, target: SqlType) -> bool:
    """Whether every value of one type is a value of the other, strictly."""
    if source in (target, NULL):
        return True
    match source, target:
        case Decimal(precision, scale), Decimal(wider, more):
            return more >= scale and wider - more >= precision - scale
        case Decimal(), _:
            return target == DOUBLE
        case (_, Decimal(precision, scale)) if source in (INTEGER, BIGINT):
            return precision - scale >= (_DIGITS[INTEGER] if source == INTEGER else _DIGITS[BIGINT])
        case Array(element), Array(other):
            return assignable(element, other)
        case Map(key, value), Map(other_key, other_value):
            return assignable(key, other_key) and assignable(value, other_value)
        case Struct(fields), Struct():
            found = [(field, target.field(field.name)) for field in fields]
            return all(
                other is not None and assignable(field.type, other.type) for field, other in found
            )
        case _:
            return _primitive(source, target)


def _primitive(source: SqlType, target: SqlType) -> bool:
    if source == STRING:
        return target in _FROM_STRING
    return (source == INTEGER and target in (BIGINT, DOUBLE)) or (
        source == BIGINT and target == DOUBLE
    )


def constant_assignable(source: SqlType, target: SqlType) -> bool:
    """Whether a constant may be converted to a type; its value may still not fit."""
    if assignable(source, target):
        return True
    match source, target:
        case Array(element), Array(other):
            return constant_assignable(element, other)
        case Map(key, value), Map(other_key, other_value):
            return constant_assignable(key, other_key) and constant_assignable(value, other_value)
        case Struct(fields), Struct():
            found = [(field, target.field(field.name)) for field in fields]
            return all(
                other is None or constant_assignable(field.type, other.type)
                for field, other in found
            )
        case Array() | Map() | Struct(), _:
            return False
    if source == STRING:
        return target == BOOLEAN or _is_number(target)
    if target == STRING:
        return source != BYTES
    return source in (INTEGER, BIGINT) and isinstance(target, Decimal)


def _is_number(target: SqlType) -> bool:
    return target in (INTEGER, BIGINT, DOUBLE) or isinstance(target, Decimal)

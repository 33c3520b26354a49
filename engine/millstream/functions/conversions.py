"""Implicit conversions between types (reference: types and formats, section 2)."""

from __future__ import annotations

from millstream.model.types import (
    BIGINT,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    Primitive,
    SqlType,
    Struct,
    is_numeric,
)

_INTEGER_DIGITS = {INTEGER: 10, BIGINT: 19}
_RANK = {INTEGER: 0, BIGINT: 1, DOUBLE: 3}
_FROM_TEXT = (DATE, TIME, TIMESTAMP, BYTES)


def as_decimal(sql_type: SqlType) -> Decimal | None:
    """The DECIMAL that holds every value of an exact number type; None for other types."""
    if isinstance(sql_type, Decimal):
        return sql_type
    digits = _INTEGER_DIGITS.get(sql_type) if isinstance(sql_type, Primitive) else None
    return None if digits is None else Decimal(digits, 0)


def wider_decimal(left: Decimal, right: Decimal) -> Decimal:
    """The smallest DECIMAL that holds all values of both."""
    scale = max(left.scale, right.scale)
    return Decimal(
        scale + max(left.precision - left.scale, right.precision - right.scale),
        scale,
    )


def converts(source: SqlType, target: SqlType) -> bool:
    """Whether a value of `source` is accepted as `target` without a CAST.

    These are the strict rules: columns, function arguments, INSERT … SELECT. Literals in lists
    have laxer ones.
    """
    if source == target or source is NULL:
        return True
    match source, target:
        case Decimal(), Decimal():
            return wider_decimal(source, target) == target
        case ((Primitive.INTEGER | Primitive.BIGINT), Decimal()):
            needed = as_decimal(source)
            return needed is not None and wider_decimal(needed, target) == target
        case Decimal(), Primitive.DOUBLE:
            return True
        case Primitive.STRING, Primitive():
            return target in _FROM_TEXT
        case Primitive(), Primitive():
            return source in _RANK and target in _RANK and _RANK[source] <= _RANK[target]
        case Array(a), Array(b):
            return converts(a, b)
        case Map(k, v), Map(k2, v2):
            return converts(k, k2) and converts(v, v2)
        case Struct(fields), Struct():
            return all(
                (there := target.field(field.name)) is None or converts(field.type, there.type)
                for field in fields
            ) and any(target.field(field.name) for field in fields)
        case _:
            return False


def wider(left: SqlType, right: SqlType) -> SqlType | None:
    """The common type by widening numbers, at any depth; None where there is none."""
    if left == right or right is NULL:
        return left
    if left is NULL:
        return right
    if is_numeric(left) and is_numeric(right):
        return _wider_number(left, right)
    match left, right:
        case Array(a), Array(b):
            element = wider(a, b)
            return None if element is None else Array(element)
        case Map(k, v), Map(k2, v2):
            key, value = wider(k, k2), wider(v, v2)
            return None if key is None or value is None else Map(key, value)
        case Struct(), Struct():
            return _wider_struct(left, right)
        case (Primitive.STRING, other) | (other, Primitive.STRING) if other in _FROM_TEXT:
            return other
        case _:
            return None


def _wider_number(left: SqlType, right: SqlType) -> SqlType:
    if DOUBLE in (left, right):
        return DOUBLE
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        a, b = as_decimal(left), as_decimal(right)
        assert a is not None and b is not None
        return wider_decimal(a, b)
    return BIGINT if BIGINT in (left, right) else INTEGER


def _wider_struct(left: Struct, right: Struct) -> Struct | None:
    fields = []
    for field in left.fields:
        there = right.field(field.name)
        both = field.type if there is None else wider(field.type, there.type)
        if both is None:
            return None
        fields.append(Field(field.name, both))
    extra = [field for field in right.fields if left.field(field.name) is None]
    return Struct((*fields, *extra))

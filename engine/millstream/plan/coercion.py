"""Finds one type for a list of expressions, with loose conversion of literals.

The rules of ARRAY[…], MAP(…) and IN (reference: types and formats, section 2, "lax").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from millstream.functions.conversions import wider
from millstream.model.expressions import (
    Expression,
    Literal,
    MakeArray,
    MakeMap,
    MakeStruct,
)
from millstream.model.types import (
    BOOLEAN,
    NULL,
    STRING,
    Array,
    Field,
    Map,
    SqlType,
    Struct,
    is_numeric,
)
from millstream.plan import wordings
from millstream.plan.literals import (
    coerce,
    invalid_text,
    is_null,
    is_text,
    literal_text,
    text_as_boolean,
    text_as_number,
)
from millstream.plan.texts import means


@dataclass(frozen=True, slots=True)
class Item:
    """An expression with its text for messages."""

    expression: Expression
    source: str


def unify(items: Sequence[Item]) -> tuple[SqlType, tuple[Expression, ...]]:
    """The common type of the items and the items converted to it.

    NULL where all are NULL. Raises StatementError naming the first item that does not fit.
    """
    target: SqlType = NULL
    for item in items:
        if not is_null(item.expression) and not is_text(item.expression):
            target = item.expression.type
            break
    else:
        if any(is_text(item.expression) for item in items):
            target = STRING
    for item in items:
        both = _merge(target, item.expression)
        if both is None:
            raise wordings.OPERATOR_MISSING(
                target=target,
                type=item.expression.type,
                source=item.source,
                detail="Hint: You might need to add explicit type casts.",
            )
        target = both
    return target, tuple(_convert(item.expression, target) for item in items)


def _merge(target: SqlType, item: Expression) -> SqlType | None:
    """The type that holds both; None where there is none."""
    if isinstance(item, Literal) and item.value is None:
        return item.type if target is NULL else target
    if isinstance(item, Literal) and target != item.type:
        loose = _merge_literal(target, item)
        if loose is not None:
            return loose
    match item, target:
        case MakeArray(items), Array(element):
            inner = _merge_all(element, items)
            return None if inner is None else Array(inner)
        case MakeMap(entries), Map(key, value):
            keys = _merge_all(key, [entry[0] for entry in entries])
            values = _merge_all(value, [entry[1] for entry in entries])
            return None if keys is None or values is None else Map(keys, values)
        case MakeStruct(fields), Struct():
            return _merge_struct(target, fields)
    if item.type == STRING and target != STRING and target is not NULL:
        return None
    return wider(target, item.type)


def _merge_all(target: SqlType, items: Sequence[Expression]) -> SqlType | None:
    both: SqlType | None = target
    for item in items:
        if both is not None:
            both = _merge(both, item)
    return both


def _merge_struct(target: Struct, fields: Sequence[tuple[str, Expression]]) -> SqlType | None:
    given = dict(fields)
    merged = []
    for field in target.fields:
        there = given.pop(field.name, None)
        both = field.type if there is None else _merge(field.type, there)
        if both is None:
            return None
        merged.append(Field(field.name, both))
    merged += [Field(name, expression.type) for name, expression in given.items()]
    return Struct(tuple(merged))


def _merge_literal(target: SqlType, item: Literal) -> SqlType | None:
    if target == STRING:
        return STRING
    if item.type != STRING or not isinstance(item.value, str):
        return None
    if is_numeric(target):
        return wider(target, text_as_number(item.value, target).type)
    if target == BOOLEAN:
        text_as_boolean(item.value)
        return BOOLEAN
    both = wider(target, STRING)
    if both is not None and not means(item.value, both):
        raise invalid_text(item.value, both)
    return both


def _convert(item: Expression, target: SqlType) -> Expression:
    """The item as the merged type; constructors are converted inside."""
    match item, target:
        case MakeArray(items), Array(element):
            return replace(item, items=tuple(_convert(i, element) for i in items), type=target)
        case MakeMap(entries), Map(key, value):
            pairs = tuple((_convert(k, key), _convert(v, value)) for k, v in entries)
            return replace(item, entries=pairs, type=target)
        case MakeStruct(fields), Struct(wanted):
            given = dict(fields)
            return MakeStruct(
                tuple(
                    (f.name, _convert(given.get(f.name, Literal(None, NULL)), f.type))
                    for f in wanted
                ),
                target,
            )
        case Literal(value, kind), _ if value is not None and kind != target:
            return _convert_literal(item, target)
    return coerce(item, target)


def _convert_literal(item: Expression, target: SqlType) -> Expression:
    assert isinstance(item, Literal)
    if target == STRING:
        text = literal_text(item)
        return Literal(text, STRING) if item.type != STRING else item
    if isinstance(item.value, str) and item.type == STRING:
        if target == BOOLEAN:
            return text_as_boolean(item.value)
        if is_numeric(target):
            return coerce(text_as_number(item.value, target), target)
    return coerce(item, target)

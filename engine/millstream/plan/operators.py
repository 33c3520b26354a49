"""Typing of comparisons, predicates and arithmetic over operands that are typed already."""

from __future__ import annotations

from millstream.functions.conversions import as_decimal, wider
from millstream.model.expressions import Arithmetic, Compare, Expression, Literal
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
    Map,
    SqlType,
    Struct,
    is_numeric,
)
from millstream.plan import wordings
from millstream.plan.coercion import Item
from millstream.plan.instants import epoch_millis
from millstream.plan.literals import coerce, common_number, is_null, is_text
from millstream.plan.quoting import type_name

OPERATORS = {
    "=": "EQUAL",
    "<>": "NOT_EQUAL",
    "<": "LESS_THAN",
    "<=": "LESS_THAN_OR_EQUAL",
    ">": "GREATER_THAN",
    ">=": "GREATER_THAN_OR_EQUAL",
    "IS DISTINCT FROM": "IS_DISTINCT_FROM",
    "IS NOT DISTINCT FROM": "IS_NOT_DISTINCT_FROM",
}
_EQUALITY = ("=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_TEMPORAL = (DATE, TIME, TIMESTAMP)
_ORDERED = (STRING, BYTES, *_TEMPORAL)


def compare(operator: str, left: Item, right: Item) -> Compare:
    """A comparison with both sides converted to one type; raises StatementError where none
    exists."""
    if is_null(left.expression) or is_null(right.expression):
        raise wordings.COMPARED_WITH_NULL(
            left=left.expression.type,
            operator=operator,
            right=right.expression.type,
            hint="Use IS NULL or IS NOT NULL.",
        )
    common = common_type(operator, left.expression.type, right.expression.type)
    if common is None:
        raise wordings.COMPARED_TYPES(
            left=left.source,
            left_type=left.expression.type,
            right=right.source,
            right_type=right.expression.type,
            operators=OPERATORS[operator],
        )
    return Compare(operator, coerce(left.expression, common), coerce(right.expression, common))


def common_type(operator: str, left: SqlType, right: SqlType) -> SqlType | None:
    """The type in which two types compare; None where they do not (reference: section 5)."""
    if is_numeric(left) and is_numeric(right):
        return common_number(left, right)
    if left == right:
        return left if left in _ORDERED or operator in _EQUALITY else None
    match left, right:
        case (Array(), Array()) | (Map(), Map()) | (Struct(), Struct()) if operator in _EQUALITY:
            return wider(left, right)
    pair = {left, right}
    if STRING in pair:
        return next((kind for kind in _TEMPORAL if kind in pair), None)
    return TIMESTAMP if pair == {DATE, TIMESTAMP} else None


def timestamp_text(column: str | None, item: Item) -> Item:
    """A string constant compared with ROWTIME or a window bound, as milliseconds."""
    if column in ("ROWTIME", "WINDOWSTART", "WINDOWEND") and is_text(item.expression):
        assert isinstance(item.expression, Literal)
        return Item(Literal(epoch_millis(str(item.expression.value)), BIGINT), item.source)
    return item


def arithmetic(operator: str, left: Item, right: Item, source: str) -> Expression:
    """A sum, product, … with its result type; raises StatementError for anything except numbers."""
    a, b = left.expression, right.expression
    if operator == "+" and a.type == STRING and b.type == STRING:
        return Arithmetic(operator, a, b, STRING)
    if is_null(a) or is_null(b):
        raise wordings.ARITHMETIC_ON_NULL(source=source, left=_named(a), right=_named(b))
    if not (is_numeric(a.type) and is_numeric(b.type)):
        raise wordings.ARITHMETIC_TYPES(
            source=source, left=type_name(a.type), right=type_name(b.type)
        )
    result = arithmetic_type(operator, a.type, b.type)
    if isinstance(result, Decimal):
        a, b = _exact(a), _exact(b)
    else:
        a, b = coerce(a, result), coerce(b, result)
    return Arithmetic(operator, a, b, result)


def _named(expression: Expression) -> str:
    return "null" if is_null(expression) else str(expression.type)


def _exact(expression: Expression) -> Expression:
    kind = as_decimal(expression.type)
    assert kind is not None
    return coerce(expression, kind)


def arithmetic_type(operator: str, left: SqlType, right: SqlType) -> SqlType:
    """The result type of arithmetic on two numbers (reference: section 4)."""
    if DOUBLE in (left, right):
        return DOUBLE
    if not isinstance(left, Decimal) and not isinstance(right, Decimal):
        return BIGINT if BIGINT in (left, right) else INTEGER
    a, b = as_decimal(left), as_decimal(right)
    assert a is not None and b is not None
    whole_a, whole_b = a.precision - a.scale, b.precision - b.scale
    scale = max(a.scale, b.scale)
    match operator:
        case "+" | "-":
            return Decimal(scale + max(whole_a, whole_b) + 1, scale)
        case "*":
            return Decimal(a.precision + b.precision + 1, a.scale + b.scale)
        case "/":
            scale = max(6, a.scale + b.precision + 1)
            return Decimal(whole_a + b.scale + scale, scale)
        case _:
            return Decimal(min(whole_a, whole_b) + scale, scale)


def boolean(item: Item, what: str) -> Expression:
    """The expression if it is BOOLEAN; an untyped NULL becomes one."""
    if is_null(item.expression):
        return Literal(None, BOOLEAN)
    if item.expression.type != BOOLEAN:
        raise wordings.BOOLEAN_NEEDED(what=what, source=item.source, type=item.expression.type)
    return item.expression

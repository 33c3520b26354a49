"""Constants: parses their text, and converts them to other types at planning time."""

from __future__ import annotations

import datetime
import decimal
import re

from millstream.functions.conversions import as_decimal, wider_decimal
from millstream.model.errors import StatementError
from millstream.model.expressions import Cast, Expression, Literal
from millstream.model.java_number import java_double
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    NULL,
    STRING,
    Decimal,
    SqlType,
)
from millstream.plan import wordings

_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_EXACT = decimal.Context(prec=1000, rounding=decimal.ROUND_HALF_UP)


def number_literal(text: str) -> Literal:
    """`12` INTEGER or BIGINT, `1.20` DECIMAL(3, 2), `1E3` DOUBLE; raises StatementError if too
    large."""
    if "e" in text.lower():
        return Literal(float(text), DOUBLE)  # the parser has refused infinity
    if "." in text:
        exact = decimal.Decimal(text)
        return Literal(exact, literal_type(exact))
    number = int(text)
    if not -_LONG_MAX - 1 <= number <= _LONG_MAX:
        raise wordings.INVALID_NUMBER(text=text)
    return Literal(number, INTEGER if -_INT_MAX - 1 <= number <= _INT_MAX else BIGINT)


def literal_type(value: decimal.Decimal) -> Decimal:
    """The DECIMAL of a literal: a number below 1 has a digit before its point, as in ksqlDB."""
    narrowest = decimal_type(value)
    if abs(value) >= 1:
        return narrowest
    return Decimal(narrowest.scale + 1, narrowest.scale)


def decimal_type(value: decimal.Decimal) -> Decimal:
    """The narrowest DECIMAL that holds a number with its trailing zeros."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    return Decimal(max(len(digits) + max(0, exponent), scale, 1), scale)


def negated(literal: Literal) -> Literal:
    """A number literal with a minus before it; its type is that of the signed number."""
    match literal.value:
        case bool() | None:
            raise wordings.NEGATED_LITERAL(literal=literal.value)
        case int(value):
            return number_literal(str(-value))
        case float(value):
            return Literal(-value, literal.type)
        case decimal.Decimal() as value:
            return Literal(-value, literal.type)
        case _:
            raise wordings.NEGATED_LITERAL(literal=literal.type)


def coerce(expression: Expression, target: SqlType) -> Expression:
    """The expression as the target type, by a rule already checked: literals become literals of the
    type where no information is lost, everything else gets an implicit Cast."""
    if expression.type == target:
        return expression
    if isinstance(expression, Literal):
        if expression.value is None:
            return Literal(None, target)
        value = expression.value
        if isinstance(value, int | decimal.Decimal) and not isinstance(value, bool):
            folded = _number(decimal.Decimal(value), target)
            if folded is not None:
                return folded
    return Cast(expression, target, implicit=True)


def _number(value: decimal.Decimal, target: SqlType) -> Literal | None:
    if target == DOUBLE:
        return Literal(float(value), DOUBLE)
    if target in (INTEGER, BIGINT) and value == value.to_integral_value():
        return Literal(int(value), target)
    if isinstance(target, Decimal):
        own = decimal_type(value)
        if wider_decimal(own, target) == target:
            unit = decimal.Decimal(1).scaleb(-target.scale)
            return Literal(value.quantize(unit, context=_EXACT), target)
    return None


def text_as_number(text: str, wanted: SqlType) -> Literal:
    """A number written as a string in a list of numbers; anything except digits is a DECIMAL.

    Raises StatementError where the text is not a number.
    """
    try:
        value = decimal.Decimal(text.strip())
    except decimal.InvalidOperation:
        raise invalid_text(text, wanted) from None
    if not value.is_finite():
        raise invalid_text(text, wanted)
    if wanted == DOUBLE:
        return Literal(float(value), DOUBLE)
    if re.fullmatch(r"[+-]?\d+", text.strip()) and abs(value) <= _LONG_MAX:
        return number_literal(str(int(value)))
    plain = decimal.Decimal(format(value, "f"))
    return Literal(plain, literal_type(plain))


def text_as_boolean(text: str) -> Literal:
    """Any prefix of true, yes, false or no; raises StatementError for other texts."""
    folded = text.strip().lower()
    if folded and ("true".startswith(folded) or "yes".startswith(folded)):
        return Literal(True, BOOLEAN)
    if folded and ("false".startswith(folded) or "no".startswith(folded)):
        return Literal(False, BOOLEAN)
    raise invalid_text(text, BOOLEAN)


def invalid_text(text: str, wanted: SqlType) -> StatementError:
    """The error for a string constant that is not of the type the others have."""
    return wordings.INVALID_INPUT(wanted=wanted, text=text)


def literal_text(literal: Literal) -> str | None:
    """A constant as the text that CAST(… AS STRING) would give; None for NULL."""
    match literal.value:
        case None:
            return None
        case bool(value):
            return "true" if value else "false"
        case decimal.Decimal() as value:
            return format(value, "f")
        case str(value):
            return value
        case datetime.date() | datetime.time() as value:
            return value.isoformat()
        case float(value):
            return java_double(value)
        case value:
            return str(value)


def is_text(expression: Expression) -> bool:
    """Whether it is a string constant."""
    return isinstance(expression, Literal) and expression.type == STRING


def common_number(left: SqlType, right: SqlType) -> SqlType:
    """The common type for arithmetic on, or comparison of, two numbers."""
    if DOUBLE in (left, right):
        return DOUBLE
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        a, b = as_decimal(left), as_decimal(right)
        assert a is not None and b is not None
        return wider_decimal(a, b)
    return BIGINT if BIGINT in (left, right) else INTEGER


def is_null(expression: Expression) -> bool:
    """Whether it is the untyped NULL."""
    return expression.type is NULL

"""Arithmetic as DuckDB text: integers that wrap, decimals to the last digit.

The fast text raises where an integer overflows or a divisor is 0; the exact text wraps, and raises
only where the dialect has no value (reference: types and formats, section 4).
"""

from __future__ import annotations

from millstream.model.physical import MAX_DECIMAL_PRECISION, duckdb_type, physical_digits
from millstream.model.types import BIGINT, DOUBLE, INTEGER, STRING, Decimal, SqlType
from millstream.operators.casts import wrap
from millstream.operators.sql import DECIMAL_DIVIDE, DECIMAL_MULTIPLY, call, cast

_WIDER = {INTEGER: "BIGINT", BIGINT: "HUGEINT"}


def arithmetic(
    operator: str,
    left: tuple[str, SqlType],
    right: tuple[str, SqlType],
    result: SqlType,
    *,
    exact: bool,
) -> str:
    """`left operator right` from (text, type) pairs, as the result type."""
    a, b = left[0], right[0]
    if result == STRING:
        return f"({a} || {b})"
    if result == DOUBLE:
        return f"({a} {operator} {b})"
    if isinstance(result, Decimal):
        assert isinstance(left[1], Decimal) and isinstance(right[1], Decimal)
        return _decimal(operator, (a, left[1]), (b, right[1]), result, exact)
    symbol = "//" if operator == "/" else operator
    if not exact:
        return f"({a} {symbol} {b})"
    wider = _WIDER[result]  # type: ignore[index]
    return wrap(f"(CAST({a} AS {wider}) {symbol} CAST({b} AS {wider}))", result)


def negate(text: str, kind: SqlType, *, exact: bool) -> str:
    """Unary minus; the lowest integer is its own negative."""
    if exact and kind in (INTEGER, BIGINT):
        return wrap(f"(0 - CAST({text} AS HUGEINT))", kind)
    # DuckDB computes a minus before a constant expression while it binds, where TRY cannot help.
    if kind == DOUBLE:
        return f"({text} * (-1e0))"
    return cast(f"({cast('0', kind)} - {text})", kind)


def _decimal(
    operator: str,
    left: tuple[str, Decimal],
    right: tuple[str, Decimal],
    result: Decimal,
    exact: bool,
) -> str:
    a, b = left[0], right[0]
    match operator:
        case "*":
            if left[1].scale + right[1].scale > MAX_DECIMAL_PRECISION:
                return _rowwise(DECIMAL_MULTIPLY, a, b, result)
            return cast(f"({a} * {b})", result)
        case "/":
            return _divide(left, right, result, exact)
        case "%":
            scale = max(left[1].scale, right[1].scale)
            whole = max(left[1].precision - left[1].scale, right[1].precision - right[1].scale)
            common = Decimal(whole + scale, scale)
            return cast(f"({cast(a, common)} % {cast(b, common)})", result)
        case _:
            if result.precision > MAX_DECIMAL_PRECISION:
                a, b = cast(a, result), cast(b, result)
            return cast(f"({a} {operator} {b})", result)


def _divide(
    left: tuple[str, Decimal], right: tuple[str, Decimal], result: Decimal, exact: bool
) -> str:
    """Through whole numbers of 128 bits, since DuckDB divides decimals as doubles.

    With a = A / 10^s1, b = B / 10^s2 the digits of a / b at scale s are A * 10^(s + s2 - s1) / B,
    rounded half up. More than 38 digits raise; then, or where no 128 bits can do, it goes by rows.
    """
    (a, kind_a), (b, kind_b) = left, right
    shift = result.scale + kind_b.scale - kind_a.scale
    fits = max(shift, result.scale) < MAX_DECIMAL_PRECISION
    roomy = result.precision <= MAX_DECIMAL_PRECISION and all(
        kind.precision + kind.scale < MAX_DECIMAL_PRECISION for kind in (kind_a, kind_b)
    )
    if not fits or (exact and not roomy):
        return _rowwise(DECIMAL_DIVIDE, a, b, result)
    numerator = f"({_digits(a, kind_a)} * {_power(shift)})"
    divisor = _digits(b, kind_b)
    half = (
        f"CASE WHEN abs({numerator} % {divisor}) * 2 >= abs({divisor}) "
        f"THEN sign({numerator}) * sign({divisor}) ELSE 0 END"
    )
    quotient = cast(f"({numerator} // {divisor} + {half})", Decimal(result.precision, 0))
    if result.scale == 0:
        return quotient
    one = "0." + "1".rjust(result.scale, "0")
    unit = f"CAST('{one}' AS DECIMAL({result.scale}, {result.scale}))"
    return cast(f"({quotient} * {unit})", result)


def _digits(text: str, kind: Decimal) -> str:
    """A decimal times 10^scale, as a whole number."""
    if kind.scale == 0:
        return f"CAST({text} AS HUGEINT)"
    power = f"CAST('{10**kind.scale}' AS DECIMAL({kind.scale + 1}, 0))"
    return f"CAST({text} * {power} AS HUGEINT)"


def _power(exponent: int) -> str:
    return f"{10**exponent}::HUGEINT"


def _rowwise(function: str, a: str, b: str, result: Decimal) -> str:
    _, scale = physical_digits(result.precision, result.scale)
    made = call(function, f"CAST({a} AS VARCHAR)", f"CAST({b} AS VARCHAR)", str(scale))
    return f"CAST({made} AS {duckdb_type(result)})"

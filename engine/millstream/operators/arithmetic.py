"""Arithmetic as DuckDB text: integers that wrap, decimals to the last digit.

The fast text raises where an integer overflows or a divisor is 0; the exact text wraps, and raises
only where the dialect defines no value (reference: types and formats, section 4).

DuckDB rewrites `x + 1 > 2` to `x > 1` and sums `x + 1` as `sum(x) + count(x)`, which do not raise
where `x + 1` does. It does not look into an exclusive or with 0, which leaves the number unchanged.
"""

from __future__ import annotations

from millstream.model.physical import MAX_DECIMAL_PRECISION, duckdb_type, physical_digits
from millstream.model.types import BIGINT, DOUBLE, INTEGER, STRING, Decimal, SqlType
from millstream.operators.casts import wrap
from millstream.operators.sql import DECIMAL_FUNCTIONS, call, cast

_WIDER = {INTEGER: "BIGINT", BIGINT: "HUGEINT"}
_NARROW = 18
"""Digits of DuckDB's decimals of 64 bits."""


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
        made = f"({a} {symbol} {b})"
        return made if operator in "/%" else call("xor", made, "0")
    wider = _WIDER[result]  # type: ignore[index]
    return wrap(f"(CAST({a} AS {wider}) {symbol} CAST({b} AS {wider}))", result)


def negate(text: str, kind: SqlType, *, exact: bool) -> str:
    """Unary minus; the lowest integer is its own negative."""
    if exact and kind in (INTEGER, BIGINT):
        return wrap(f"(0 - CAST({text} AS HUGEINT))", kind)
    # DuckDB computes a minus before a constant expression while it binds, where TRY cannot help.
    if kind == DOUBLE:
        return f"({text} * (-1e0))"
    made = cast(f"({cast('0', kind)} - {text})", kind)
    return call("xor", made, "0") if kind in (INTEGER, BIGINT) else made


def _decimal(
    operator: str,
    left: tuple[str, Decimal],
    right: tuple[str, Decimal],
    result: Decimal,
    exact: bool,
) -> str:
    (a, kind_a), (b, kind_b) = left, right
    if max(kind_a.scale, kind_b.scale, result.scale) > MAX_DECIMAL_PRECISION:
        return _rowwise(operator, a, b, result)
    match operator:
        case "*":
            return cast(f"({_wide(a, kind_a, result)} * {b})", result)
        case "/":
            return _divide(left, right, result, exact)
        case "%":
            scale = max(kind_a.scale, kind_b.scale)
            whole = max(kind_a.precision - kind_a.scale, kind_b.precision - kind_b.scale)
            common = Decimal(whole + scale, scale)
            if common.precision > MAX_DECIMAL_PRECISION:
                return _rowwise(operator, a, b, result)
            return cast(f"({cast(a, common)} % {cast(b, common)})", result)
        case _:
            if exact and result.precision > MAX_DECIMAL_PRECISION:
                # An operand may have more digits before the point than the type of the result.
                return _rowwise(operator, a, b, result)
            if result.precision > _NARROW:
                a, b = cast(a, result), cast(b, result)
            return cast(f"({a} {operator} {b})", result)


def _wide(text: str, kind: Decimal, result: Decimal) -> str:
    """A factor of a product. If the factors have at most 18 digits, DuckDB gives the product 18
    digits, and raises where these do not suffice."""
    if kind.precision > _NARROW or result.precision <= _NARROW:
        return text
    return cast(text, Decimal(_NARROW + 1, kind.scale))


def _divide(
    left: tuple[str, Decimal], right: tuple[str, Decimal], result: Decimal, exact: bool
) -> str:
    """Computed with 128-bit integers, because DuckDB divides decimals as doubles.

    With a = A / 10^s1, b = B / 10^s2 the digits of a / b at scale s + 1, the last one cut off, are
    A * 10^(s + 1 + s2 - s1) / B; rounding these half up to scale s rounds a / b half up. What does
    not fit into 128 bits raises; then, or if the types show that it may not fit, it is computed row
    by row. Each operand occurs once, so that a chain of quotients has a short text.
    """
    (a, kind_a), (b, kind_b) = left, right
    shift = result.scale + 1 + kind_b.scale - kind_a.scale
    fits = max(shift, result.scale + 1) < MAX_DECIMAL_PRECISION
    roomy = max(
        kind_a.precision + max(shift, kind_a.scale),
        kind_b.precision + kind_b.scale,
        result.precision + 1,
    )
    if not fits or (exact and roomy >= MAX_DECIMAL_PRECISION):
        return _rowwise("/", a, b, result)
    digits = f"({_digits(a, kind_a)} * {10**shift}::HUGEINT // {_digits(b, kind_b)})"
    unit = Decimal(result.scale + 1, result.scale + 1)
    one = cast(f"'0.{'1'.rjust(unit.scale, '0')}'", unit)
    return cast(f"({cast(digits, Decimal(MAX_DECIMAL_PRECISION, 0))} * {one})", result)


def _digits(text: str, kind: Decimal) -> str:
    """A decimal times 10^scale, as a whole number."""
    if kind.scale == 0:
        return f"CAST({text} AS HUGEINT)"
    power = cast(f"'{10**kind.scale}'", Decimal(max(kind.scale, _NARROW) + 1, 0))
    return f"CAST({text} * {power} AS HUGEINT)"


def _rowwise(operator: str, a: str, b: str, result: Decimal) -> str:
    _, scale = physical_digits(result.precision, result.scale)
    function = DECIMAL_FUNCTIONS[operator]
    made = call(function, f"CAST({a} AS VARCHAR)", f"CAST({b} AS VARCHAR)", str(scale))
    return f"CAST({made} AS {duckdb_type(result)})"

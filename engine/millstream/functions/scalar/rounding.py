"""CEIL, FLOOR, ROUND and TRUNC (reference: functions, section 1)."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence

import pyarrow as pa

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.entry import function, let, rowwise
from millstream.model.types import Decimal, SqlType

CATEGORY = "MATHEMATICAL"
_SATURATED = (
    "CASE WHEN isnan({0}) THEN 0 WHEN {0} >= 9223372036854775807e0 THEN 9223372036854775807"
    " WHEN {0} <= -9223372036854775808e0 THEN CAST('-9223372036854775808' AS BIGINT) ELSE %s END"
)
_ROUND_HALF = "CAST(floor({0}) + CASE WHEN {0} - floor({0}) >= 0.5 THEN 1 ELSE 0 END AS BIGINT)"
_TRUNC = "CAST(trunc({0}) AS BIGINT)"


def _whole(types: Sequence[SqlType]) -> SqlType:
    """The type of a DECIMAL without its fraction."""
    kind = types[0]
    assert isinstance(kind, Decimal)
    return Decimal(max(1, kind.precision - kind.scale), 0)


def _per_type(double: str, of_decimal: str) -> list[Variant | tuple[str, str]]:
    return [
        ("INTEGER -> INTEGER", "{0}"),
        ("BIGINT -> BIGINT", "{0}"),
        ("DOUBLE -> DOUBLE", double),
        ("DECIMAL -> DECIMAL", of_decimal),
    ]


def _power(digit: str, place: str, kind: str) -> str:
    """A digit at a position behind the point, or before it if the position is negative; NULL where
    the type has no such position before it."""
    behind, before = f"'0.' || lpad('{digit}', {place}, '0')", f"rpad('{digit}', 1 - {place}, '0')"
    return f"TRY_CAST(CASE WHEN {place} > 0 THEN {behind} ELSE {before} END AS {kind})"


def _at_scale(value: str, kind: str, keep_half: bool) -> str:
    """A decimal at the scale {1}, rounded half up or truncated.

    Neither a step of this scale nor its half need fit the type; no value is as large then.
    """
    digits = "greatest(-39, least(39, {1}))"
    step, half = _power("1", digits, kind), _power("5", f"({digits} + 1)", kind)
    zero = f"CAST(0 AS {kind})"
    up = "CASE WHEN _r > 0 AND _r >= _s - _r THEN _s WHEN _r < 0 AND -_r > _s + _r THEN -_s"
    moved = f"_d - _r + {up} ELSE {zero} END" if keep_half else "_d - _r"
    cut = let(
        "_s", step, let("_r", "_d % nullif(_s, 0)", f"CASE WHEN _s = 0 THEN _d ELSE {moved} END")
    )
    too_large = (
        f"CASE WHEN {half} IS NULL OR (_d >= -{half} AND _d < {half}) THEN {zero}"
        f" ELSE CAST('too large' AS {kind}) END"
    )
    body = f"CASE WHEN {step} IS NULL THEN {too_large if keep_half else zero} ELSE {cut} END"
    rounded = let("_d", f"CAST({value} AS {kind})", f"CAST({body} AS {kind})")
    return f"CASE WHEN {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN {rounded} END"


def _double_at_scale(rounding: str) -> Callable[..., pa.Array]:
    """The same for a DOUBLE of any size, taken as the decimal that it prints as."""

    def compute(value: float, digits: int) -> float:
        if not math.isfinite(value):
            return value
        exact = decimal.Decimal(repr(value))
        place = max(-400, min(400, digits))
        one = decimal.Decimal(1).scaleb(-place)
        towards = rounding
        if rounding == decimal.ROUND_HALF_UP and exact < 0:
            towards = decimal.ROUND_HALF_DOWN
        return float(exact.quantize(one, towards, _EXACT))

    return rowwise(compute)


_EXACT = decimal.Context(prec=800, Emax=9999, Emin=-9999)
_WIDE = "DECIMAL(38, 18)"
_FAR = (
    "{0} <> 0 AND (abs({0}) < 0.01 OR abs({0}) >= 1e17) OR {1} < -16 OR {1} > 16"
    " OR NOT isfinite({0})"
)


def _scaled(keep_half: bool) -> list[Variant | tuple[str, str]]:
    """ROUND and TRUNC to a number of digits."""
    of_double = _at_scale("CAST({0} AS VARCHAR)", _WIDE, keep_half)
    return [
        Variant(
            "DOUBLE, INTEGER -> DOUBLE",
            # Whether the decimal has all 17 digits of the number.
            f"CASE WHEN {_FAR} THEN CAST(CAST('out of range' AS BIGINT) AS DOUBLE)"
            f" ELSE CAST(CAST({of_double} AS VARCHAR) AS DOUBLE) END",
            python=_double_at_scale(decimal.ROUND_HALF_UP if keep_half else decimal.ROUND_DOWN),
        ),
        ("DECIMAL, INTEGER -> DECIMAL", f"CAST({_at_scale('{0}', '{t0}', keep_half)} AS {{t}})"),
    ]


_ROUND_DECIMAL = let(
    "_d",
    "{0}",
    let(
        "_t",
        "trunc(_d)",
        let(
            "_f",
            "CAST(_d - _t AS {t0})",
            "CAST(_t + CASE WHEN _f >= CAST('0.5' AS {t0}) THEN 1"
            " WHEN _f < CAST('-0.5' AS {t0}) THEN -1 ELSE 0 END AS {t})",
        ),
    ),
)
"""For a type without a fraction, half a unit is a whole one, which no fraction reaches."""

ROUNDING: tuple[ScalarFunction, ...] = (
    function(
        "CEIL", CATEGORY, _per_type("ceil({0})", "CAST(ceil({0}) AS {t})"),
        "The smallest whole number that is not less; of the argument's type.",
        (("CEIL(1.2E0)", "2E0"), ("CEIL(-1.50)", "-1.00")),
    ),
    function(
        "FLOOR", CATEGORY, _per_type("floor({0})", "CAST(floor({0}) AS {t})"),
        "The greatest whole number that is not greater; of the argument's type.",
        (("FLOOR(1.8E0)", "1E0"), ("FLOOR(-1.50)", "-2.00")),
    ),
    function(
        "ROUND",
        CATEGORY,
        [
            ("BIGINT -> BIGINT", "{0}"),
            Variant("DOUBLE -> BIGINT", _ROUND_HALF, _SATURATED % _ROUND_HALF),
            Variant("DECIMAL -> DECIMAL", _ROUND_DECIMAL, result=_whole),
            *_scaled(keep_half=True),
        ],
        "The nearest whole number, or number of so many decimals; a half goes up. A negative "
        "number of decimals rounds left of the point.",
        (
            ("ROUND(2.5E0)", "3"),
            ("ROUND(-2.5E0)", "-2"),
            ("ROUND(123.456, -1)", "120.000"),
            ("ROUND(2.675E0, 2)", "2.68E0"),
            ("ROUND(-1.25, 1)", "-1.20"),
            ("ROUND(3.2, -1)", "0.0"),
            ("ROUND(1.55E25, -24)", "1.6E25"),
        ),
    ),
    function(
        "TRUNC",
        CATEGORY,
        [
            ("BIGINT -> BIGINT", "{0}"),
            Variant("DOUBLE -> BIGINT", _TRUNC, _SATURATED % _TRUNC),
            Variant("DECIMAL -> DECIMAL", "CAST(trunc({0}) AS {t})", result=_whole),
            *_scaled(keep_half=False),
        ],
        "The number without its fraction, or with so many decimals.",
        (("TRUNC(-2.7E0)", "-2"), ("TRUNC(1.299, 1)", "1.200"), ("TRUNC(19.9E0, -1)", "10E0")),
    ),
)  # fmt: skip
"""The functions of this module."""

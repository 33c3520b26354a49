"""CEIL, FLOOR, ROUND and TRUNC (reference: functions, section 1)."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.entry import function, let
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
    decimal = types[0]
    assert isinstance(decimal, Decimal)
    return Decimal(max(1, decimal.precision - decimal.scale), 0)


def _per_type(name: str, double: str, decimal: str) -> list[Variant | tuple[str, str]]:
    return [
        ("INTEGER -> INTEGER", "{0}"),
        ("BIGINT -> BIGINT", "{0}"),
        ("DOUBLE -> DOUBLE", double),
        ("DECIMAL -> DECIMAL", decimal),
    ]


def _at_scale(value: str, step: str, decimal: str, keep_half: bool) -> str:
    """A decimal at a scale given by a row: floor to `step`, then up from the half on; or cut."""
    if not keep_half:
        body = f"CASE WHEN {step} = 0 THEN _d ELSE _d - _d % {step} END"
    else:
        rest = f"((_d % {step} + {step}) % {step})"
        body = (
            f"CASE WHEN {step} = 0 THEN _d ELSE CAST(_d - {rest}"
            f" + CASE WHEN {rest} >= {step} - {rest} THEN {step} ELSE 0 END AS {decimal}) END"
        )
    return let("_d", f"CAST({value} AS {decimal})", body)


def _scaled(keep_half: bool) -> list[Variant | tuple[str, str]]:
    """ROUND and TRUNC to a number of digits. A DOUBLE is taken as the decimal it prints as."""
    wide = "DECIMAL(38, 18)"
    of_double = _at_scale(
        "CAST({0} AS VARCHAR)", f"CAST(pow(10, -({{1}})) AS {wide})", wide, keep_half
    )
    of_decimal = _at_scale("{0}", "CAST(pow(10, -({1})) AS {t0})", "{t0}", keep_half)
    as_it_is = "isnan({0}) OR isinf({0}) OR (abs({0}) >= 1e17 AND {1} >= 0)"
    return [
        (
            "DOUBLE, INTEGER -> DOUBLE",
            f"CASE WHEN {as_it_is} THEN CASE WHEN {{1}} IS NOT NULL THEN {{0}} END"
            f" ELSE CAST(CAST({of_double} AS VARCHAR) AS DOUBLE) END",
        ),
        (
            "DECIMAL, INTEGER -> DECIMAL",
            f"CAST({of_decimal} AS {{t}})",
        ),
    ]


ROUNDING: tuple[ScalarFunction, ...] = (
    function(
        "CEIL", CATEGORY, _per_type("CEIL", "ceil({0})", "CAST(ceil({0}) AS {t})"),
        "The smallest whole number that is not less; of the argument's type.",
        (("CEIL(1.2E0)", "2E0"), ("CEIL(-1.50)", "-1.00")),
    ),
    function(
        "FLOOR", CATEGORY, _per_type("FLOOR", "floor({0})", "CAST(floor({0}) AS {t})"),
        "The greatest whole number that is not greater; of the argument's type.",
        (("FLOOR(1.8E0)", "1E0"), ("FLOOR(-1.50)", "-2.00")),
    ),
    function(
        "ROUND",
        CATEGORY,
        [
            ("BIGINT -> BIGINT", "{0}"),
            Variant("DOUBLE -> BIGINT", _ROUND_HALF, _SATURATED % _ROUND_HALF),
            Variant("DECIMAL -> DECIMAL", "CAST(floor({0} + 0.5) AS {t})", result=_whole),
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

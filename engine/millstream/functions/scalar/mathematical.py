"""Mathematical functions (reference: functions, section 1)."""

from __future__ import annotations

from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.bounds import SERIES_MAX, too_large
from millstream.functions.scalar.entry import function

CATEGORY = "MATHEMATICAL"
_NAN = "'NaN'::DOUBLE"


def _of_double(name: str, sql: str, description: str, *examples: tuple[str, str]) -> ScalarFunction:
    return function(name, CATEGORY, [("DOUBLE -> DOUBLE", sql)], description, examples)


_TOO_MANY = too_large("GENERATE_SERIES", SERIES_MAX)
_SERIES_STEP = (
    "CASE WHEN {2} = 0 THEN CAST('GENERATE_SERIES step cannot be zero' AS BIGINT)"
    " WHEN ({1} > {0} AND {2} < 0) OR ({1} < {0} AND {2} > 0)"
    " THEN CAST('GENERATE_SERIES step has wrong sign' AS BIGINT)"
    f" WHEN ({{1}}::HUGEINT - {{0}}) // {{2}} >= {SERIES_MAX} THEN {_TOO_MANY} ELSE {{2}} END"
)
_SERIES = f"CAST(generate_series({{0}}::BIGINT, {{1}}::BIGINT, {_SERIES_STEP}) AS {{t}})"
_SERIES_2 = (
    "CAST(generate_series({0}::BIGINT, {1}::BIGINT, CASE"
    f" WHEN abs({{1}}::HUGEINT - {{0}}) >= {SERIES_MAX} THEN {_TOO_MANY}"
    " WHEN {1} < {0} THEN -1 ELSE 1 END) AS {t})"
)

# In the order of Java 8: the last digit depends on it.
_RADIANS = "/ 180e0 * pi()"


def _distance(unit: str | None) -> str:
    a = (
        f"pow(sin(({{2}} - {{0}}) {_RADIANS} / 2), 2) + pow(sin(({{3}} - {{1}}) {_RADIANS} / 2), 2)"
        f" * cos({{0}} {_RADIANS}) * cos({{2}} {_RADIANS})"
    )
    radius = "6371e0"
    if unit is not None:
        radius = (
            f"CASE WHEN lower({unit}) IN ('mi', 'mile', 'miles') THEN 3959e0"
            f" WHEN {unit} IS NULL OR lower({unit}) IN"
            " ('km', 'kilometer', 'kilometers', 'kilometre', 'kilometres')"
            f" THEN 6371e0 ELSE CAST('GEO_DISTANCE does not know this unit' AS DOUBLE) END"
        )
    return (
        "CASE WHEN abs({0}) > 90 OR abs({2}) > 90 OR abs({1}) > 180 OR abs({3}) > 180"
        " THEN CAST('GEO_DISTANCE latitude or longitude out of range' AS DOUBLE)"
        f" ELSE 2 * asin(sqrt({a})) * ({radius}) END"
    )


_COMPARABLE = (
    "INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP",
)  # fmt: skip


def _pick(name: str, sql: str, description: str, *examples: tuple[str, str]) -> ScalarFunction:
    variants = [(f"{kind}, {kind}... -> {kind}", sql) for kind in _COMPARABLE]
    return function(name, CATEGORY, variants, description, examples, null_propagates=False)


MATHEMATICAL: tuple[ScalarFunction, ...] = (
    function(
        "ABS",
        CATEGORY,
        [
            Variant(
                "INTEGER -> INTEGER",
                # DuckDB types the constant -2147483648 as BIGINT.
                "abs(CAST({0} AS INTEGER))",
                "CASE WHEN {0} > -2147483648 THEN abs({0}) ELSE {0} END",
            ),
            Variant(
                "BIGINT -> BIGINT",
                "abs({0})",
                "CASE WHEN {0} > -9223372036854775808 THEN abs({0}) ELSE {0} END",
            ),
            ("DOUBLE -> DOUBLE", "abs({0})"),
            ("DECIMAL -> DECIMAL", "abs({0})"),
        ],
        "The value without its sign. The smallest integer stays as it is.",
        (("ABS(-3)", "3"), ("ABS(-2.50)", "2.50")),
    ),
    _of_double(
        "ACOS", "acos({0})", "Arc cosine in radians; NaN outside -1 to 1.",
        ("ACOS(1)", "0E0"), ("CAST(ACOS(2) AS STRING)", "'NaN'"),
    ),
    _of_double(
        "ASIN", "asin({0})", "Arc sine in radians; NaN outside -1 to 1.",
        ("ASIN(0)", "0E0"), ("ASIN(1)", "1.5707963267948966E0"),
    ),
    _of_double(
        "ATAN", "atan({0})", "Arc tangent in radians.",
        ("ATAN(0)", "0E0"), ("ATAN(1)", "0.7853981633974483E0"),
    ),
    function(
        "ATAN2", CATEGORY, [("DOUBLE, DOUBLE -> DOUBLE", "atan2({0}, {1})")],
        "The angle in radians of the point (x, y), given as (y, x).",
        (("ATAN2(0, 1)", "0E0"), ("ATAN2(1, 1)", "0.7853981633974483E0")),
    ),
    _of_double(
        "CBRT",
        # One Newton step makes the cube root of a cube exact.
        "CASE WHEN {0} = 0 OR isinf({0}) OR isnan({0}) THEN {0} ELSE"
        " cbrt({0}) - (pow(cbrt({0}), 3) - {0}) / (3 * pow(cbrt({0}), 2)) END",
        "Cube root.", ("CBRT(27)", "3E0"), ("CBRT(-8)", "-2E0"),
    ),
    _of_double("COS", "cos({0})", "Cosine of radians.", ("COS(0)", "1E0"), ("COS(NULL)", "NULL")),
    _of_double(
        "COSH", "cosh({0})", "Hyperbolic cosine.", ("COSH(0)", "1E0"), ("COSH(NULL)", "NULL")
    ),
    _of_double(
        "COT", "cot({0})", "Cotangent of radians; infinite at 0.",
        ("COT(1)", "0.6420926159343306E0"), ("CAST(COT(0) AS STRING)", "'Infinity'"),
    ),
    _of_double(
        "DEGREES", "({0}) * 180e0 / pi()", "Radians as degrees.",
        ("DEGREES(0)", "0E0"), ("DEGREES(PI())", "180E0"),
    ),
    _of_double("EXP", "exp({0})", "e to the power of the argument.",
        ("EXP(0)", "1E0"), ("EXP(1)", "2.718281828459045E0"),
    ),
    function(
        "GENERATE_SERIES",
        CATEGORY,
        [
            ("INTEGER, INTEGER -> ARRAY<INTEGER>", _SERIES_2),
            ("BIGINT, BIGINT -> ARRAY<BIGINT>", _SERIES_2),
            ("INTEGER, INTEGER, INTEGER -> ARRAY<INTEGER>", _SERIES),
            ("BIGINT, BIGINT, INTEGER -> ARRAY<BIGINT>", _SERIES),
        ],
        "The numbers from the first to the second, both included, by steps of the third (1 or -1). "
        "A step of 0 or in the wrong direction is an error.",
        (
            ("GENERATE_SERIES(1, 3)", "ARRAY[1, 2, 3]"),
            ("GENERATE_SERIES(5, 1, -2)", "ARRAY[5, 3, 1]"),
            ("GENERATE_SERIES(1, 3, 0)", "NULL"),
        ),
    ),
    function(
        "GEO_DISTANCE",
        CATEGORY,
        [
            ("DOUBLE, DOUBLE, DOUBLE, DOUBLE -> DOUBLE", _distance(None)),
            ("DOUBLE, DOUBLE, DOUBLE, DOUBLE, STRING -> DOUBLE", _distance("{4}")),
        ],
        "The great-circle distance of two points given as latitude and longitude in degrees, in "
        "kilometres ('KM') or miles ('MI').",
        (
            ("GEO_DISTANCE(10, 20, 10, 20)", "0E0"),
            ("ROUND(GEO_DISTANCE(0, 0, 0, 90, 'miles'))", "6219"),
            ("GEO_DISTANCE(91, 0, 0, 0)", "NULL"),
        ),
        null_propagates=False,
    ),
    _pick(
        "GREATEST", "greatest({args})", "The greatest of the arguments that are not NULL.",
        ("GREATEST(1, NULL, 7)", "7"), ("GREATEST('a', 'b')", "'b'"),
    ),
    _pick(
        "LEAST", "least({args})", "The smallest of the arguments that are not NULL.",
        ("LEAST(4, NULL, 7)", "4"), ("LEAST('a', 'b')", "'a'"),
    ),
    _of_double(
        "LN", "ln({0})", "Natural logarithm; NaN below 0, -Infinity at 0.",
        ("LN(1)", "0E0"), ("CAST(LN(0) AS STRING)", "'-Infinity'"),
    ),
    function(
        "LOG",
        CATEGORY,
        [
            ("DOUBLE -> DOUBLE", "ln({0})"),
            (
                "DOUBLE, DOUBLE -> DOUBLE",
                "CASE WHEN {0} <= 0 OR {0} = 1 THEN"
                f" CASE WHEN {{1}} IS NOT NULL THEN {_NAN} END"
                " ELSE ln({1}) / ln({0}) END",
            ),
        ],
        "Logarithm of the last argument to the base of the first; of one argument, the natural "
        "logarithm.",
        (("LOG(2, 8)", "3E0"), ("LOG(1)", "0E0"), ("CAST(LOG(1, 8) AS STRING)", "'NaN'")),
    ),
    function(
        "PI", CATEGORY, [("-> DOUBLE", "pi()")], "The number pi.",
        (("PI()", "3.141592653589793E0"), ("ROUND(PI())", "3")),
    ),
    function(
        "POWER", CATEGORY, [("DOUBLE, DOUBLE -> DOUBLE", "pow({0}, {1})")],
        "The first argument to the power of the second.",
        (("POWER(2, 10)", "1024E0"), ("POWER(2, NULL)", "NULL")),
    ),
    _of_double(
        "RADIANS", f"({{0}}) {_RADIANS}", "Degrees as radians.",
        ("RADIANS(0)", "0E0"), ("RADIANS(180)", "3.141592653589793E0"),
    ),
    function(
        "RANDOM", CATEGORY, [("-> DOUBLE", "random()")], "A number from 0 up to but not 1.",
        (("RANDOM() >= 0", "TRUE"), ("RANDOM() < 1", "TRUE")), deterministic=False,
    ),
    function(
        "SIGN", CATEGORY, [("DOUBLE -> INTEGER", "CAST(sign({0}) AS INTEGER)")],
        "-1, 0 or 1.", (("SIGN(-3)", "-1"), ("SIGN(0.0)", "0")),
    ),
    _of_double("SIN", "sin({0})", "Sine of radians.", ("SIN(0)", "0E0"), ("SIN(NULL)", "NULL")),
    _of_double(
        "SINH", "sinh({0})", "Hyperbolic sine.", ("SINH(0)", "0E0"), ("SINH(NULL)", "NULL")
    ),
    _of_double(
        "SQRT", "sqrt({0})", "Square root; NaN below 0.",
        ("SQRT(9)", "3E0"), ("CAST(SQRT(-1) AS STRING)", "'NaN'"),
    ),
    _of_double("TAN", "tan({0})", "Tangent of radians.", ("TAN(0)", "0E0"), ("TAN(NULL)", "NULL")),
    _of_double(
        "TANH", "tanh({0})", "Hyperbolic tangent.", ("TANH(0)", "0E0"), ("TANH(NULL)", "NULL")
    ),
)  # fmt: skip
"""The functions of this category."""

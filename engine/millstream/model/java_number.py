"""Numbers in Java's notation."""

from __future__ import annotations

import decimal

JAVA_DOUBLE = "ms_java_double"
"""The SQL name of `java_double`."""

PLAIN_NUMBER = "ms_plain_number"
"""The SQL name of `plain_number`."""
_MOST_DIGITS = 400


def plain_number(text: str) -> str:
    """A number without exponent; returns a text that is not a number, or is far too large,
    unchanged."""
    try:
        value = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return text
    if not value.is_finite() or value.adjusted() > _MOST_DIGITS:
        return text
    if value.adjusted() < -_MOST_DIGITS:
        return "0"
    return format(value, "f")


def java_double(value: float) -> str:
    """A DOUBLE as in Java's Double.toString: `1.0`, `1.0E10`, `Infinity`."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return repr(value)
    sign, digits, exponent = decimal.Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) - 1 + exponent
    minus = "-" if sign else ""
    if not 1e-3 <= abs(value) < 1e7:
        if len(figures) == 1:
            # Java writes at least two digits, the nearest two: 4.9E-324.
            nearest, _, tens = f"{abs(value):.1e}".partition("e")
            return f"{minus}{nearest}E{int(tens)}"
        return f"{minus}{figures[0]}.{figures[1:]}E{power}"
    plain = format(decimal.Decimal(repr(abs(value))), "f")
    return minus + (plain if "." in plain else f"{plain}.0")


def decimal_text(text: str) -> str:
    """SQL for the text of a DECIMAL. DuckDB's own text has no 0 before the point if the type has no
    digits there."""
    return f"regexp_replace({text}, '^(-?)[.]', '\\10.')"

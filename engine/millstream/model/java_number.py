"""Numbers as the text Java makes of them."""

from __future__ import annotations

import decimal

JAVA_DOUBLE = "ms_java_double"
"""The name by which SQL calls `java_double`."""

PLAIN_NUMBER = "ms_plain_number"
"""The name by which SQL calls `plain_number`."""
_MOST_DIGITS = 400


def plain_number(text: str) -> str:
    """A number without its exponent; a text that is none, or is far too large, as it is."""
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
    """A DOUBLE as Java's Double.toString writes it: `1.0`, `1.0E10`, `Infinity`."""
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
            # Java writes two digits at least, the nearest two: 4.9E-324.
            nearest, _, tens = f"{abs(value):.1e}".partition("e")
            return f"{minus}{nearest}E{int(tens)}"
        return f"{minus}{figures[0]}.{figures[1:]}E{power}"
    plain = format(decimal.Decimal(repr(abs(value))), "f")
    return minus + (plain if "." in plain else f"{plain}.0")


def decimal_text(text: str) -> str:
    """SQL for the text of a DECIMAL, from DuckDB's: that has no 0 before the point, where the type
    has no digits there."""
    return f"regexp_replace({text}, '^(-?)[.]', '\\10.')"

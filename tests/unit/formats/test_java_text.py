"""DOUBLEs as Java's Double.toString writes them (shortest digits)."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats.java_text import double_text

CON = duckdb.connect(config={"threads": 1})


def text_of(value: float | None) -> str | None:
    row = CON.execute(f"SELECT {double_text('v')} FROM (SELECT ?::DOUBLE AS v)", [value]).fetchall()
    found = row[0][0]
    assert found is None or isinstance(found, str)
    return found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (-1e-5, "-1.0E-5"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (-12345678.9, "-1.23456789E7"),
        (1e15, "1.0E15"),
        (123456789012345680.0, "1.2345678901234568E17"),
        (1e22, "1.0E22"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_known_texts(value: float | None, text: str | None) -> None:
    assert text_of(value) == text


def scientific(value: float) -> str:
    digits, exponent = f"{value!r}e0".split("e")[:2]
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    whole, _, fraction = digits.partition(".")
    power = int(exponent) + len(whole) - 1
    figures = (whole + fraction).lstrip("0")
    power -= len(whole + fraction) - len(figures)
    figures = figures.rstrip("0")
    return f"{sign}{figures[0]}.{figures[1:] or '0'}E{power}"


@settings(max_examples=300)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_beyond_the_plain_range_it_is_scientific(value: float) -> None:
    plain = value == 0 or 1e-3 <= abs(value) < 1e7
    assert text_of(value) == (repr(value) if plain else scientific(value))

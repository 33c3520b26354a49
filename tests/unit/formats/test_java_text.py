"""DOUBLEs as Java's Double.toString writes them: the shortest digits, but two at least.

The rule is the one of its documentation: of the shortest decimals that read back as the number the
nearest, where one with a single digit counts as having two (4.9E-324, not 5.0E-324).
"""

from __future__ import annotations

import decimal

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats.java_text import double_text
from millstream.model.java_number import java_double
from tests.draws import draws

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
        (5e-324, "4.9E-324"),
        (-1e-323, "-9.9E-324"),
        (1.5e-323, "1.5E-323"),
        (2e-323, "2.0E-323"),
        (5e-323, "4.9E-323"),
        (6e-323, "5.9E-323"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_known_texts(value: float | None, text: str | None) -> None:
    assert text_of(value) == text
    assert value is None or java_double(value) == text


def nearest_two(value: float) -> tuple[str, str]:
    """Two digits and an exponent, by the exact value of the number."""
    with decimal.localcontext(prec=2, Emin=-400) as context:
        exact = context.create_decimal(decimal.Decimal(abs(value)))
    figures = "".join(map(str, exact.as_tuple().digits)).ljust(2, "0")
    return f"{figures[0]}.{figures[1]}", str(exact.adjusted())


def scientific(value: float) -> str:
    digits, exponent = f"{value!r}e0".split("e")[:2]
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    whole, _, fraction = digits.partition(".")
    power = int(exponent) + len(whole) - 1
    figures = (whole + fraction).lstrip("0")
    if len(figures.rstrip("0")) == 1:
        return sign + "E".join(nearest_two(value))
    power -= len(whole + fraction) - len(figures)
    figures = figures.rstrip("0")
    return f"{sign}{figures[0]}.{figures[1:] or '0'}E{power}"


@settings(max_examples=draws(300))
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_beyond_the_plain_range_it_is_scientific(value: float) -> None:
    plain = value == 0 or 1e-3 <= abs(value) < 1e7
    expected = repr(value) if plain else scientific(value)
    assert text_of(value) == java_double(value) == expected


@settings(max_examples=draws(300))
@given(st.integers(1, 5000))
def test_subnormal_numbers_read_back_in_every_text(steps: int) -> None:
    value = steps * 5e-324
    text = text_of(value)
    assert text == java_double(value) == scientific(value)
    assert text is not None and float(text) == value

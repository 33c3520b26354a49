"""Functions and casts of DECIMAL, by exact numbers.

Rules (reference: functions 1; types and formats 3): CEIL, FLOOR and ABS keep the type, SIGN is an
INTEGER. ROUND and TRUNC to whole numbers give DECIMAL(p - s, 0), of one digit at least; to a number
of digits, positive or negative, they keep the type, and its scale with zeros. ROUND goes up from
the half on, towards positive infinity; TRUNC towards zero. A cast to DECIMAL rounds half up, away
from zero; one to INT and BIGINT cuts off and wraps; STRING keeps all zeros, and has one before the
point; DOUBLE is the nearest one. What needs more digits before the point than its type has is NULL.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from contextlib import suppress
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP
from decimal import Decimal as Number

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.functions.catalogue import builtin_catalogue
from millstream.model.types import BIGINT, DOUBLE, INTEGER, STRING, Decimal, SqlType
from millstream.operators.expressions import compile_expression
from millstream.operators.sql import guarded, identifier
from millstream.plan.scope import Scope
from millstream.plan.typing import type_expression
from millstream_parser import parse_expression
from tests.draws import draws
from tests.registered import register

CATALOGUE = builtin_catalogue()
SCOPE = Scope((), CATALOGUE)
EXACT = decimal.Context(prec=90)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        register(connection)
        yield connection


@st.composite
def decimals(draw: st.DrawFn, most: int = 38) -> tuple[Decimal, Number]:
    """A number of a DECIMAL type that holds it; halves and runs of nines come often."""
    precision = draw(st.integers(1, most))
    scale = draw(st.integers(0, precision))
    top = 10**precision - 1
    half = 5 * 10 ** max(0, scale - 1)
    digits = draw(
        st.integers(-top, top) | st.sampled_from([0, top, -top, min(half, top), -min(half, top)])
    )
    return Decimal(precision, scale), Number(digits).scaleb(-scale, EXACT)


def computed(con: duckdb.DuckDBPyConnection, text: str) -> tuple[SqlType, object]:
    """Type and value; the fast text has the same value unless it raises."""
    typed = type_expression(parse_expression(text), SCOPE)
    register(con, [typed], CATALOGUE)
    fast, exact = (
        compile_expression(typed, CATALOGUE, exact=exact, columns=identifier)
        for exact in (False, True)
    )
    [(value,)] = con.execute(f"SELECT {guarded(exact)}").fetchall()
    with suppress(duckdb.Error):
        assert con.execute(f"SELECT {fast}").fetchall() == [(value,)]
    return typed.type, value


def fitting(value: Number, kind: Decimal, rounding: str = ROUND_HALF_UP) -> Number | None:
    """A value with the scale of its type, or NULL."""
    at_scale = value.quantize(Number(1).scaleb(-kind.scale), rounding, EXACT)
    return at_scale if at_scale.copy_abs() < Number(10) ** (kind.precision - kind.scale) else None


def to_digits(value: Number, digits: int, rounding: str) -> Number:
    """Rounded to so many digits behind the point, or before it."""
    if rounding == "UP FROM THE HALF":
        half = Number(5).scaleb(-digits - 1)
        return EXACT.add(value, half).quantize(Number(1).scaleb(-digits), ROUND_FLOOR, EXACT)
    return value.quantize(Number(1).scaleb(-digits), rounding, EXACT)


def exactly(value: object) -> object:
    """Values of different scales are distinguished; zero has no sign."""
    if not isinstance(value, Number):
        return value
    return f"{value.copy_abs() if value == 0 else value:f}"


def written(kind: Decimal, value: Number) -> str:
    return f"CAST('{value:f}' AS {kind})"


@settings(max_examples=draws(150), deadline=None)
@given(item=decimals())
def test_to_whole_numbers(con: duckdb.DuckDBPyConnection, item: tuple[Decimal, Number]) -> None:
    kind, value = item
    text = written(kind, value)
    for name, rounding in (("CEIL", ROUND_CEILING), ("FLOOR", ROUND_FLOOR)):
        found, result = computed(con, f"{name}({text})")
        expected = fitting(to_digits(value, 0, rounding), kind)
        assert found == kind and exactly(result) == exactly(expected), name
    whole = Decimal(max(1, kind.precision - kind.scale), 0)
    for name, rounding in (("ROUND", "UP FROM THE HALF"), ("TRUNC", ROUND_DOWN)):
        found, result = computed(con, f"{name}({text})")
        expected = fitting(to_digits(value, 0, rounding), whole)
        assert found == whole and exactly(result) == exactly(expected), name


@settings(max_examples=draws(150), deadline=None)
@given(item=decimals(), digits=st.integers(-12, 12))
def test_to_a_number_of_digits(
    con: duckdb.DuckDBPyConnection, item: tuple[Decimal, Number], digits: int
) -> None:
    kind, value = item
    for name, rounding in (("ROUND", "UP FROM THE HALF"), ("TRUNC", ROUND_DOWN)):
        found, result = computed(con, f"{name}({written(kind, value)}, {digits})")
        kept = value if digits >= kind.scale else to_digits(value, digits, rounding)
        expected = fitting(kept, kind)
        assert found == kind and exactly(result) == exactly(expected), name


@settings(max_examples=draws(150), deadline=None)
@given(item=decimals())
def test_signs(con: duckdb.DuckDBPyConnection, item: tuple[Decimal, Number]) -> None:
    kind, value = item
    text = written(kind, value)
    found, result = computed(con, f"ABS({text})")
    assert found == kind and exactly(result) == exactly(value.copy_abs())
    found, result = computed(con, f"-({text})")
    assert found == kind and exactly(result) == exactly(value.copy_negate())
    assert computed(con, f"SIGN({text})") == (INTEGER, (value > 0) - (value < 0))


@settings(max_examples=draws(200), deadline=None)
@given(item=decimals(), precision=st.integers(1, 38), data=st.data())
def test_casts(
    con: duckdb.DuckDBPyConnection,
    item: tuple[Decimal, Number],
    precision: int,
    data: st.DataObject,
) -> None:
    kind, value = item
    text = written(kind, value)
    other = Decimal(precision, data.draw(st.integers(0, precision)))
    found, result = computed(con, f"CAST({text} AS {other})")
    assert found == other and exactly(result) == exactly(fitting(value, other))
    for whole, bits in ((INTEGER, 32), (BIGINT, 64)):
        half = 2 ** (bits - 1)
        wrapped = (int(value) + half) % (2 * half) - half
        assert computed(con, f"CAST({text} AS {whole})") == (whole, wrapped)
    assert computed(con, f"CAST({text} AS DOUBLE)") == (DOUBLE, float(value))
    shown = exactly(value)
    assert computed(con, f"CAST({text} AS STRING)") == (STRING, shown)


@settings(max_examples=draws(150), deadline=None)
@given(
    item=st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-99, 99),
    behind=st.integers(0, 99999),
    kind=decimals(),
)
def test_integers_and_texts_as_decimals(
    con: duckdb.DuckDBPyConnection, item: int, behind: int, kind: tuple[Decimal, Number]
) -> None:
    target, _ = kind
    texts = [f"{item}.{behind}", f"{item}.{behind}E-{behind % 40}", f"{item}e{behind % 20}"]
    for text, literal in [(f"{item}", f"{item}"), *((text, f"'{text}'") for text in texts)]:
        expected = exactly(fitting(Number(text), target))
        assert exactly(computed(con, f"CAST({literal} AS {target})")[1]) == expected


@settings(max_examples=draws(150), deadline=None)
@given(value=st.floats(allow_nan=False, allow_infinity=False), kind=decimals())
def test_doubles_as_decimals(
    con: duckdb.DuckDBPyConnection, value: float, kind: tuple[Decimal, Number]
) -> None:
    """A DOUBLE is the decimal that it prints as."""
    target, _ = kind
    text = f"CAST('{value!r}' AS DOUBLE)"
    expected = fitting(Number(repr(value)), target) if abs(value) < 1e39 else None
    assert exactly(computed(con, f"CAST({text} AS {target})")[1]) == exactly(expected)


@settings(max_examples=draws(200), deadline=None)
@given(
    value=st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-99999, 99999).map(lambda n: n / 1000),
    digits=st.integers(-25, 25),
)
def test_doubles_to_a_number_of_digits(
    con: duckdb.DuckDBPyConnection, value: float, digits: int
) -> None:
    """Rounded as the decimal that a DOUBLE prints as, whatever its size."""
    for name, rounding in (("ROUND", "UP FROM THE HALF"), ("TRUNC", ROUND_DOWN)):
        found = computed(con, f"{name}(CAST('{value!r}' AS DOUBLE), {digits})")
        with decimal.localcontext(prec=800):
            exact = Number(repr(value))
            half = Number(5).scaleb(-digits - 1)
            one = Number(1).scaleb(-digits)
            kept = (
                exact.quantize(one, ROUND_DOWN)
                if rounding == ROUND_DOWN
                else (exact + half).quantize(one, ROUND_FLOOR)
            )
        assert found == (DOUBLE, float(kept)), name

"""The type that values of several numeric types have in common, and what they are in it.

Rule (shared/reference, types-and-formats 2 and 4; functions, GREATEST and LEAST): INTEGER widens to
BIGINT, DECIMAL and DOUBLE in this order, an INTEGER being a DECIMAL(10, 0) and a BIGINT a
DECIMAL(19, 0). A DECIMAL that holds two others has the digits of each before and behind the point.
ARRAY, MAP and IN widen their elements; GREATEST and LEAST widen decimals; the branches of CASE have
one type and are not widened.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Sequence
from decimal import Decimal as Number

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.functions.catalogue import builtin_catalogue
from millstream.model.errors import StatementError
from millstream.model.types import BIGINT, DOUBLE, INTEGER, Array, Decimal, Map, SqlType
from millstream.operators.expressions import compile_expression
from millstream.operators.sql import identifier
from millstream.plan.scope import Scope
from millstream.plan.typing import type_expression
from millstream_parser import parse_expression
from tests.draws import draws
from tests.registered import register

CATALOGUE = builtin_catalogue()
SCOPE = Scope((), CATALOGUE)
DIGITS = {INTEGER: (10, 0), BIGINT: (19, 0)}
Typed = tuple[SqlType, Number]
EXACT = decimal.Context(prec=60)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        register(connection)
        yield connection


@st.composite
def decimals(draw: st.DrawFn) -> Typed:
    """A number of a DECIMAL type that holds it."""
    precision = draw(st.integers(1, 18))
    scale = draw(st.integers(0, precision))
    digits = draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    return Decimal(precision, scale), Number(digits).scaleb(-scale, EXACT)


NUMBERS: st.SearchStrategy[Typed] = st.one_of(
    st.tuples(st.just(INTEGER), st.integers(-(2**31), 2**31 - 1).map(Number)),
    st.tuples(st.just(BIGINT), st.integers(-(2**63) + 1, 2**63 - 1).map(Number)),
    decimals(),
    st.tuples(st.just(DOUBLE), st.integers(-1000, 1000).map(lambda n: Number(n) / 8)),
)


def written(item: Typed) -> str:
    kind, value = item
    return f"CAST('{value:f}' AS {kind})"


def common(kinds: Sequence[SqlType]) -> SqlType:
    if DOUBLE in kinds:
        return DOUBLE
    if not any(isinstance(kind, Decimal) for kind in kinds):
        return BIGINT if BIGINT in kinds else INTEGER
    pairs = [
        (kind.precision, kind.scale) if isinstance(kind, Decimal) else DIGITS[kind]
        for kind in kinds
    ]
    scale = max(scale for _, scale in pairs)
    return Decimal(max(precision - scale for precision, scale in pairs) + scale, scale)


def computed(con: duckdb.DuckDBPyConnection, text: str) -> tuple[SqlType, object]:
    typed = type_expression(parse_expression(text), SCOPE)
    register(con, [typed], CATALOGUE)
    sql = compile_expression(typed, CATALOGUE, exact=True, columns=identifier)
    [(value,)] = con.execute(f"SELECT {sql}").fetchall()
    return typed.type, value


def as_number(value: object) -> object:
    """Doubles and decimals of one value are distinguished."""
    return str(value) if isinstance(value, Number) else value


def in_type(value: Number, kind: SqlType) -> object:
    if kind is DOUBLE:
        return float(value)
    return (
        str(value.quantize(Number(1).scaleb(-kind.scale), context=EXACT))
        if isinstance(kind, Decimal)
        else int(value)
    )


@settings(max_examples=draws(40))
@given(items=st.lists(NUMBERS, min_size=1, max_size=4))
def test_elements_are_widened(con: duckdb.DuckDBPyConnection, items: list[Typed]) -> None:
    kind = common([kind for kind, _ in items])
    found, value = computed(con, f"ARRAY[{', '.join(map(written, items))}]")
    assert found == Array(kind)
    assert isinstance(value, list)
    assert [as_number(one) for one in value] == [in_type(number, kind) for _, number in items]
    entries = ", ".join(f"'{n}' := {written(item)}" for n, item in enumerate(items))
    found, _ = computed(con, f"MAP({entries})")
    assert isinstance(found, Map) and found.value == kind


@settings(max_examples=draws(40))
@given(items=st.lists(decimals(), min_size=2, max_size=4))
def test_the_greatest_and_the_least_of_decimals(
    con: duckdb.DuckDBPyConnection, items: list[Typed]
) -> None:
    kind = common([kind for kind, _ in items])
    listed = ", ".join(map(written, items))
    for name, best in (("GREATEST", max), ("LEAST", min)):
        found, value = computed(con, f"{name}({listed})")
        assert found == kind
        assert as_number(value) == in_type(best(number for _, number in items), kind)


@settings(max_examples=draws(40))
@given(left=NUMBERS, right=NUMBERS)
def test_branches_have_one_type(con: duckdb.DuckDBPyConnection, left: Typed, right: Typed) -> None:
    text = f"CASE WHEN 1 = 1 THEN {written(left)} ELSE {written(right)} END"
    if left[0] == right[0]:
        found, value = computed(con, text)
        assert found == left[0] and as_number(value) == in_type(left[1], left[0])
        return
    with pytest.raises(StatementError, match="Invalid Case expression"):
        computed(con, text)


@settings(max_examples=draws(40))
@given(left=NUMBERS, items=st.lists(NUMBERS, min_size=1, max_size=3))
def test_numbers_of_any_types_are_compared_as_numbers(
    con: duckdb.DuckDBPyConnection, left: Typed, items: list[Typed]
) -> None:
    if DOUBLE in (left[0], *(kind for kind, _ in items)):
        # As doubles, numbers of many digits may be equal that are not.
        left = (left[0], left[1] % 1000 // 1)
        items = [(kind, number % 1000 // 1) for kind, number in items]
        if any(isinstance(k, Decimal) and k.precision - k.scale < 3 for k, _ in (left, *items)):
            return
    for kind, number in items:
        right = written((kind, number))
        assert computed(con, f"{written(left)} = {right}")[1] is (left[1] == number)
        assert computed(con, f"{written(left)} < {right}")[1] is (left[1] < number)

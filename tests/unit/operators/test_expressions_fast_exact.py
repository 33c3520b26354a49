"""Property: where the fast text does not raise, it has the values of the exact one."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.functions.function import Catalogue
from millstream.model.errors import StatementError
from millstream.model.physical import duckdb_type
from millstream.model.schema import Column, Schema
from millstream.model.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING, Decimal
from millstream.operators.expressions import compile_expression
from millstream.operators.sql import guarded, identifier
from millstream.plan.scope import Scope
from millstream.plan.typing import type_expression
from millstream_parser import parse_expression
from tests.draws import draws
from tests.registered import register

CATALOGUE = Catalogue({}, {}, {})
SCHEMA = Schema(
    (
        Column("I", INTEGER),
        Column("L", BIGINT),
        Column("X", DOUBLE),
        Column("P", Decimal(9, 2)),
        Column("S", STRING),
        Column("B", BOOLEAN),
    )
)
SCOPE = Scope((("R", SCHEMA),), CATALOGUE)
INTEGERS = st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3) | st.integers(2**31 - 9, 2**31 - 1)
ROW = st.tuples(
    INTEGERS,
    st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    st.floats(allow_nan=False, width=32),
    st.decimals(-9999999, 9999999, places=2),
    st.sampled_from(["1", " -7 ", "2.5", "x", "", "true", "2020-02-29", "1e3"]),
    st.booleans(),
)
NUMBERS = st.recursive(
    st.sampled_from(["I", "L", "X", "P", "3", "2.50", "-7", "1E2", "65536", "2147483647"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        inner.map(lambda text: f"(- {text})"),
        st.tuples(inner, st.sampled_from(["INT", "BIGINT", "DOUBLE", "DECIMAL(12, 3)"])).map(
            lambda parts: f"CAST({parts[0]} AS {parts[1]})"
        ),
        st.sampled_from(["INT", "BIGINT", "DOUBLE", "DECIMAL(6, 1)"]).map(
            lambda kind: f"CAST(S AS {kind})"
        ),
    ),
    max_leaves=4,
)
CONDITIONS = st.recursive(
    st.sampled_from(["B", "S LIKE '%1%'", "S IS NULL"])
    | st.tuples(NUMBERS, st.sampled_from(["=", "<>", "<", ">=", "IS DISTINCT FROM"]), NUMBERS).map(
        " ".join
    ),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
            lambda parts: f"(({parts[0]}) {parts[1]} ({parts[2]}))"
        )
        | inner.map(lambda text: f"(NOT ({text}))")
    ),
    max_leaves=3,
)
TEXTS = (
    NUMBERS
    | CONDITIONS
    | NUMBERS.map(lambda text: f"CAST({text} AS STRING)")
    | st.tuples(CONDITIONS, NUMBERS).map(
        lambda parts: f"CASE WHEN {parts[0]} THEN {parts[1]} ELSE {parts[1]} END"
    )
)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        register(connection)
        columns = ", ".join(f'"{c.name}" {duckdb_type(c.type)}' for c in SCHEMA.columns)
        connection.execute(f"CREATE TABLE rows ({columns})")
        yield connection


@settings(
    max_examples=draws(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=TEXTS, rows=st.lists(ROW, min_size=1, max_size=3))
def test_fast_is_exact_or_raises(
    con: duckdb.DuckDBPyConnection, text: str, rows: list[tuple[object, ...]]
) -> None:
    try:
        typed = type_expression(parse_expression(text), SCOPE)
    except StatementError:
        return
    con.execute("DELETE FROM rows")
    places = ", ".join(["(?, ?, ?, ?, ?, ?)"] * (len(rows) + 1))
    values = [value for row in [*rows, (None,) * 6] for value in row]
    con.execute(f"INSERT INTO rows VALUES {places}", values)
    fast = compile_expression(typed, CATALOGUE, exact=False, columns=identifier)
    exact = guarded(compile_expression(typed, CATALOGUE, exact=True, columns=identifier))
    wanted = con.execute(f"SELECT CAST({exact} AS VARCHAR) FROM rows").fetchall()
    try:
        found = con.execute(f"SELECT CAST({fast} AS VARCHAR) FROM rows").fetchall()
    except duckdb.Error:
        return
    assert found == wanted, text

"""Compiled expressions give the dialect's values on DuckDB, fast and exact."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal as D  # noqa: N817
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millstream.functions.function import Catalogue, ScalarFunction, Variant
from millstream.model.physical import duckdb_type
from millstream.model.schema import Column, Schema
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    Struct,
)
from millstream.operators.expressions import compile_expression, compile_predicate
from millstream.operators.sql import guarded, identifier
from millstream.operators.udfs import java_double
from millstream.plan.scope import Scope
from millstream.plan.typing import type_expression
from millstream_parser import parse_expression
from tests.registered import register

RAISES = "raises"

CATALOGUE = Catalogue(
    {
        "TWICE": ScalarFunction(
            "TWICE",
            "TEST",
            (Variant("BIGINT -> BIGINT", python=lambda column: pc.multiply(column, 2)),),
            "",
            (),
        ),
        "EACH": ScalarFunction(
            "EACH",
            "TEST",
            (
                Variant("ARRAY<T>, LAMBDA(T)->U -> ARRAY<U>", sql="list_transform({0}, {1})"),
                Variant(
                    "MAP<K, V>, LAMBDA(K, V)->U -> ARRAY<U>",
                    sql="list_transform(map_entries({0}), lambda _e: list_transform([_e.key],"
                    " lambda {p1_0}: list_transform([_e.value], lambda {p1_1}: {b1})[1])[1])",
                ),
            ),
            "",
            (),
        ),
    },
    {},
    {},
)
SCHEMA = Schema(
    (
        Column("I", INTEGER),
        Column("L", BIGINT),
        Column("X", DOUBLE),
        Column("P", Decimal(4, 2)),
        Column("S", STRING),
        Column("B", BOOLEAN),
        Column("A", Array(INTEGER)),
        Column("M", Map(STRING, BIGINT)),
        Column("T", Struct((Field("F", INTEGER), Field("f", STRING)))),
        Column("DAY", DATE),
        Column("MOMENT", TIMESTAMP),
        Column("CLOCK", TIME),
    )
)
ROWS = """
(7, 3000000000, 1.5, 10.01, ' 12 ', true, [1, 2, NULL], map{'x': 5, 'y': 6},
 {'F': 1, 'f_': 'q'}, DATE '2020-01-02', TIMESTAMP '2020-01-02 03:04:05.678', TIME '10:11:12'),
(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
(2147483647, 9223372036854775807, 1e10, -99.99, 'x', false, [], map{'y': 6, 'x': 5},
 {'F': NULL, 'f_': NULL}, DATE '1969-12-31', TIMESTAMP '1969-12-31 23:59:59.999',
 TIME '00:00:00.5')
"""


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        columns = ", ".join(f'"{c.name}" {duckdb_type(c.type)}' for c in SCHEMA.columns)
        connection.execute(f"CREATE TABLE rows ({columns})")
        connection.execute(f"INSERT INTO rows VALUES {ROWS}")
        yield connection


def run(con: duckdb.DuckDBPyConnection, text: str, *, exact: bool) -> Any:
    """The values of an expression for the three rows, or RAISES."""
    typed = type_expression(parse_expression(text), Scope((("R", SCHEMA),), CATALOGUE))
    register(con, [typed], CATALOGUE)
    sql = compile_expression(typed, CATALOGUE, exact=exact, columns=identifier)
    value = guarded(sql) if exact else sql
    try:
        found = con.execute(f"SELECT {value} FROM rows").fetchall()
    except duckdb.Error:
        return RAISES
    kinds = con.execute(
        f"SELECT typeof({value}), typeof(CAST(NULL AS {duckdb_type(typed.type)})) FROM rows"
    ).fetchone()
    assert kinds is not None and kinds[0] == kinds[1]
    return [row[0] for row in found]


@pytest.mark.parametrize(
    ("text", "fast", "exact"),
    [
        ("I + 1", RAISES, [8, None, -(2**31)]),
        ("I * 2", RAISES, [14, None, -2]),
        ("L + 1", RAISES, [3000000001, None, -(2**63)]),
        ("L * L", RAISES, [9000000000000000000, None, 1]),
        ("-I", [-7, None, -2147483647], None),
        ("-I / 2", [-3, None, -1073741823], None),
        ("-I % 4", [-3, None, -3], None),
        ("I / 0", RAISES, [None, None, None]),
        ("I % 0", RAISES, [None, None, None]),
        ("X / 0", [float("inf"), None, float("inf")], None),
        ("P + I", [D("17.01"), None, D("2147483547.01")], None),
        ("P * P", [D("100.2001"), None, D("9998.0001")], None),
        ("P / 3", [D("3.3366666666667"), None, D("-33.3300000000000")], None),
        ("P / 0", RAISES, [None, None, None]),
        ("P % 3", [D("1.01"), None, D("-0.99")], None),
        ("P % 0", RAISES, [None, None, None]),
        ("1.50 / 3.7 * 0", [D("0.0000000")] * 3, None),
        (
            "CAST(P AS DECIMAL(20, 10)) / CAST(3.7 AS DECIMAL(20, 10))",
            RAISES,
            [
                D("2.7054054054054054054054054054054"),
                None,
                D("-27.0243243243243243243243243243243"),
            ],
        ),
        ("S + '!'", [" 12 !", None, "x!"], None),
    ],
)
def test_arithmetic(con: duckdb.DuckDBPyConnection, text: str, fast: Any, exact: Any) -> None:
    assert run(con, text, exact=False) == fast
    assert run(con, text, exact=True) == (fast if exact is None else exact)


@pytest.mark.parametrize(
    ("text", "fast", "exact"),
    [
        ("CAST(L AS INT)", RAISES, [-1294967296, None, -1]),
        ("CAST(X AS INT)", RAISES, [1, None, 2**31 - 1]),
        ("CAST(X AS BIGINT)", [1, None, 10**10], None),
        ("CAST(P AS BIGINT)", [10, None, -99], None),
        ("CAST(P AS DOUBLE)", [10.01, None, -99.99], None),
        ("CAST(P AS DECIMAL(3, 1))", RAISES, [D("10.0"), None, None]),
        ("CAST(X AS DECIMAL(4, 2))", RAISES, [D("1.50"), None, None]),
        ("CAST(I AS DECIMAL(2, 1))", RAISES, [D("7.0"), None, None]),
        ("CAST(S AS INT)", RAISES, [12, None, None]),
        ("CAST(S AS DOUBLE)", RAISES, [12.0, None, None]),
        ("CAST('1_0' AS INT)", RAISES, [None] * 3),
        ("CAST('1e1' AS INT)", RAISES, [None] * 3),
        ("CAST('NaN' AS DOUBLE)", RAISES, [None] * 3),
        ("CAST('1e999' AS DOUBLE)", RAISES, [None] * 3),
        ("CAST('0.95' AS DECIMAL(2, 1))", [D("1.0")] * 3, None),
        ("CAST('tRu' AS BOOLEAN)", [True] * 3, None),
        ("CAST(S AS BOOLEAN)", [False, None, False], None),
        ("CAST(X AS STRING)", ["1.5", None, "1.0E10"], None),
        ("CAST(P AS STRING)", ["10.01", None, "-99.99"], None),
        ("CAST(B AS STRING)", ["true", None, "false"], None),
        ("CAST(DAY AS STRING)", ["2020-01-02", None, "1969-12-31"], None),
        ("CAST(CLOCK AS STRING)", ["10:11:12", None, "00:00:00.500"], None),
        (
            "CAST(MOMENT AS STRING)",
            ["2020-01-02T03:04:05.678", None, "1969-12-31T23:59:59.999"],
            None,
        ),
        ("CAST(A AS STRING)", ["[1, 2, null]", None, "[]"], None),
        ("CAST(M AS STRING)", ["{x=5, y=6}", None, "{y=6, x=5}"], None),
        ("CAST(T AS STRING)", ["Struct{F=1,f=q}", None, "Struct{}"], None),
        ("CAST(ARRAY[X] AS STRING)", ["[1.5]", "[null]", "[1.0E10]"], None),
        ("CAST(A AS ARRAY<STRING>)", [["1", "2", None], None, []], None),
        ("CAST(ARRAY['1', 'x'] AS ARRAY<INT>)", RAISES, [[1, None]] * 3),
        (
            "CAST(T AS STRUCT<`f` STRING, G INT>)",
            [{"f": "q", "G": None}, None, {"f": None, "G": None}],
            None,
        ),
        ("CAST('2020-02' AS DATE)", [datetime.date(2020, 2, 1)] * 3, None),
        ("CAST('02/2020' AS DATE)", RAISES, [None] * 3),
        ("CAST('10:11' AS TIME)", [datetime.time(10, 11)] * 3, None),
        ("CAST('2020-01-02' AS TIMESTAMP)", [datetime.datetime(2020, 1, 2)] * 3, None),
        (
            "CAST('2020-01-02T03:04:05.6+01:30' AS TIMESTAMP)",
            [datetime.datetime(2020, 1, 2, 1, 34, 5, 600000)] * 3,
            None,
        ),
    ],
)
def test_casts(con: duckdb.DuckDBPyConnection, text: str, fast: Any, exact: Any) -> None:
    assert run(con, text, exact=False) == fast
    assert run(con, text, exact=True) == (fast if exact is None else exact)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I = 7", [True, False, False]),
        ("I <> 7", [False, False, True]),
        ("NOT I = 7", [False, True, True]),
        ("I IS DISTINCT FROM 7", [False, True, True]),
        ("I IS NOT DISTINCT FROM I", [True, True, True]),
        ("I BETWEEN 5 AND 10.5", [True, False, False]),
        ("I NOT BETWEEN 5 AND 10.5", [False, True, True]),
        ("I IN (NULL, '7')", [True, False, False]),
        ("I NOT IN (7)", [False, True, True]),
        ("S LIKE '_1%'", [True, False, False]),
        ("'50%' LIKE '50!%' ESCAPE '!'", [True] * 3),
        ("'50x' LIKE '50!%' ESCAPE '!'", [False] * 3),
        ("S IS NULL", [False, True, False]),
        ("B AND I > 3", [True, None, False]),
        ("NOT B", [False, None, True]),
        ("B OR TRUE", [True, None, True]),
        ("A = ARRAY[1, 2, NULL]", [True, False, False]),
        ("M = MAP('y' := 6, 'x' := 5)", [True, False, True]),
        ("MAP('k' := MAP('a' := L)) = MAP('k' := MAP('a' := 3000000000))", [True, False, False]),
        ("ARRAY[M] = ARRAY[MAP('x' := 5, 'y' := 6)]", [True, False, True]),
        ("T = T", [True, False, True]),
        ("DAY = '2020-01-02'", [True, False, False]),
        ("MOMENT > DAY", [True, False, True]),
        ("P = 10.010", [True, False, False]),
        ("P > 1E0", [True, False, False]),
    ],
)
def test_predicates(con: duckdb.DuckDBPyConnection, text: str, expected: Any) -> None:
    assert run(con, text, exact=False) == run(con, text, exact=True) == expected
    typed = type_expression(parse_expression(text), Scope((("R", SCHEMA),), CATALOGUE))
    kept = compile_predicate(typed, CATALOGUE, exact=False, columns=identifier)
    found = con.execute(f"SELECT coalesce({kept}, FALSE) FROM rows").fetchall()
    assert [row[0] for row in found] == [value or False for value in expected]


@pytest.mark.parametrize(
    ("text", "fast", "exact"),
    [
        ("CASE WHEN I > 7 THEN 'big' WHEN B THEN 'b' END", ["b", None, "big"], None),
        ("CASE WHEN I = 7 THEN 1 ELSE 1 / (I - I) END", RAISES, [1, None, None]),
        ("CASE WHEN TRUE THEN 1 ELSE 1 / 0 END", [1, 1, 1], None),
        ("A[1]", [1, None, None], None),
        ("A[-2]", [2, None, None], None),
        ("A[0]", [None, None, None], None),
        ("M['x']", [5, None, 5], None),
        ("M[S]", [None, None, 5], None),
        ("T->F", [1, None, None], None),
        ("T->`f`", ["q", None, None], None),
        ("STRUCT(A := I, `a` := STRUCT(B := S))->`a`->B", [" 12 ", None, "x"], None),
        ("ARRAY[NULL, I]", [[None, 7], [None, None], [None, 2**31 - 1]], None),
        ("MAP(S := 1)", [{" 12 ": 1}, {"null": 1}, {"x": 1}], None),
        ("MAP('k' := 1, 'k' := 2)", RAISES, [{"k": 2}] * 3),
        ("EACH(A, V => V + I)", RAISES, [None, None, []]),
        ("EACH(ARRAY[1, 2], V => V + I)", RAISES, [[8, 9], None, [-(2**31), -(2**31) + 1]]),
        (
            "EACH(A, V => EACH(A, W => V = W))",
            [[[True, False, False], [False, True, False], [False] * 3], None, []],
            None,
        ),
        ("EACH(M, (K, V) => V * 2)", [[10, 12], None, [12, 10]], None),
        ("EACH(A, V => 6 / (V - 1))", RAISES, [None, None, []]),
        ("TWICE(I)", [14, None, 4294967294], None),
        ("CAST(NULL AS ARRAY<INT>)", [None, None, None], None),
    ],
)
def test_values(con: duckdb.DuckDBPyConnection, text: str, fast: Any, exact: Any) -> None:
    assert run(con, text, exact=False) == fast
    assert run(con, text, exact=True) == (fast if exact is None else exact)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.5, "1.234567895E8"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (4.9e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_read_as_in_java(value: float, text: str) -> None:
    assert java_double(value) == text


def test_functions_in_python_see_no_nulls(con: duckdb.DuckDBPyConnection) -> None:
    seen: list[Any] = []

    def watch(column: pa.Array) -> pa.Array:
        seen.extend(column.to_pylist())
        return column

    catalogue = Catalogue(
        {"WATCH": ScalarFunction("WATCH", "", (Variant("T -> T", python=watch),), "", ())}, {}, {}
    )
    typed = type_expression(parse_expression("WATCH(S)"), Scope((("R", SCHEMA),), catalogue))
    register(con, [typed], catalogue)
    sql = compile_expression(typed, catalogue, exact=False, columns=identifier)
    assert con.execute(f"SELECT {sql} FROM rows").fetchall() == [(" 12 ",), (None,), ("x",)]
    assert None not in seen


def test_functions_outlive_the_cursor_that_registered_them() -> None:
    with duckdb.connect() as connection:
        cursor = connection.cursor()
        register(cursor)
        cursor.close()
        del cursor
        sql = "SELECT ms_java_double(x) FROM (SELECT CAST(1e10 AS DOUBLE) AS x)"
        assert connection.execute(sql).fetchall() == [("1.0E10",)]

"""Functions computed in Python that fail: the whole expression fails, wherever the call stands, but
for a call that is an argument or an item, which is NULL by itself (`test_short_circuits` has the
source).

Each function with rows for which it has a value, fails and has NULL, in places that could mistake
a failure for NULL, or that do not look at the call.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from millstream.functions.attempts import attempting
from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.function import ScalarFunction, Variant
from millstream.functions.scalar.entry import rowwise
from millstream.functions.user import udf
from millstream.model.physical import duckdb_type
from millstream.model.schema import Column, Schema
from millstream.model.types import BOOLEAN, BYTES, INTEGER, STRING, SqlType
from millstream.operators.expressions import compile_expression, compile_predicate
from millstream.operators.guards import guarded_text
from millstream.operators.sql import identifier
from millstream.plan.scope import Scope
from millstream.plan.typing import type_expression
from millstream.state.store import KEEP_FAILURES
from millstream_parser import parse_expression
from tests.registered import register


def strict(value: int) -> int:
    if value < 0:
        raise KeyError(value)
    return value


def strict_arrow(values: pa.Array) -> pa.Array:
    if any(value is not None and value < 0 for value in values.to_pylist()):
        raise ArithmeticError("one is negative")
    return values


CATALOGUE = builtin_catalogue().with_functions(
    [
        udf("BY_ROW", "INTEGER -> INTEGER", strict),
        udf("BY_BATCH", "INTEGER -> INTEGER", strict_arrow, arrow=True),
        udf("NO_NUMBER", "INTEGER -> INTEGER", lambda value: value if value >= 0 else "text"),
    ]
)
TEXTS: dict[str, tuple[str, str]] = {
    "PARSE_DATE({}, 'yyyy-MM-dd')": ("2021-12-31", "bad"),
    "PARSE_TIME({}, 'HH:mm')": ("13:30", "25:00"),
    "PARSE_TIMESTAMP({}, 'yyyy-MM-dd')": ("2021-12-31", "bad"),
    "PARSE_TIMESTAMP('2021', 'yyyy', {})": ("UTC", "Nowhere"),
    "STRINGTODATE({}, 'yyyy-MM-dd')": ("2021-12-31", "bad"),
    "STRINGTOTIMESTAMP({}, 'yyyy-MM-dd')": ("2021-12-31", "bad"),
    "FORMAT_DATE(FROM_DAYS(1), {})": ("yyyy", "HH"),
    "FORMAT_TIME(PARSE_TIME('13', 'HH'), {})": ("HH", "yyyy"),
    "FORMAT_TIMESTAMP(FROM_UNIXTIME(0), {})": ("yyyy", "no pattern"),
    "FORMAT_TIMESTAMP(FROM_UNIXTIME(0), 'yyyy', {})": ("UTC", "Nowhere"),
    "DATETOSTRING(1, {})": ("yyyy", "HH"),
    "TIMESTAMPTOSTRING(7, {})": ("yyyy", "no pattern"),
    "CONVERT_TZ(FROM_UNIXTIME(0), 'UTC', {})": ("Asia/Tokyo", "Nowhere"),
    "EXTRACTJSONFIELD({}, '$.a')": ('{"a": 1}', "no JSON"),
    "JSON_ARRAY_LENGTH({})": ("[1]", "[1"),
    "JSON_ITEMS({})": ("[1]", "[1"),
    "JSON_KEYS({})": ('{"a": 1}', '{"a"'),
    "JSON_RECORDS({})": ('{"a": 1}', '{"a"'),
    "JSON_CONCAT('[1]', {})": ("[1]", "[1"),
    "ENCODE({}, 'hex', 'utf8')": ("4869", "4_69"),
    "FROM_BYTES(TO_BYTES('Hi', 'utf8'), {})": ("hex", "rot13"),
    "TO_BYTES('Hi', {})": ("utf8", "rot13"),
    "REGEXP_EXTRACT({}, 'abc')": ("b", "("),
    "REGEXP_EXTRACT({}, 'abc', 0)": ("b", "("),
    "REGEXP_EXTRACT_ALL({}, 'abc')": ("b", "("),
    "REGEXP_REPLACE('abc', {}, '-')": ("b", "("),
    "REGEXP_REPLACE('abc', '(b)', {})": ("$1", "$2"),
    "REGEXP_SPLIT_TO_ARRAY('abc', {})": ("b", "("),
    "CHR({})": ("\\u004b", "\\u00zz"),
    "PARSE_DATE(EXTRACTJSONFIELD({}, '$.d'), 'yyyy')": ('{"d": 2021}', '{"d": "x"}'),
    "URL_DECODE_PARAM({})": ("a", "%zz"),
}
NUMBERS: dict[str, tuple[int, int]] = {
    "MASK_LEFT('Ab12', {})": (2, -1),
    "MASK_RIGHT('Ab12', {})": (2, -1),
    "MASK_KEEP_LEFT('É', {})": (2, -1),
    "MASK_KEEP_RIGHT('É', {})": (2, -1),
    "LPAD('😀', {}, 'x')": (4, 10_001),
    "RPAD('😀', {}, 'x')": (4, 10_001),
    "REGEXP_EXTRACT('(b)', 'abc', {})": (1, -1),
    "REGEXP_EXTRACT_ALL('(b)', 'abc', {})": (1, -1),
    "BY_ROW({})": (2, -1),
    "BY_BATCH({})": (2, -1),
    "NO_NUMBER({})": (2, -1),
    "BY_ROW(BY_BATCH({} - 1) + 1)": (2, -7),
}
BYTE_TEXTS: dict[str, tuple[bytes, bytes]] = {
    "INT_FROM_BYTES({})": (b"\0\0\0\1", b"\0"),
    "BIGINT_FROM_BYTES({}, 'LITTLE_ENDIAN')": (bytes(8), b"\0"),
    "DOUBLE_FROM_BYTES({})": (bytes(8), b"\0"),
}
NESTED: dict[str, tuple[str, str]] = {
    "UCASE(CHR({}))": ("\\u004b", "\\u00zz"),
    "FORMAT_DATE(PARSE_DATE({}, 'yyyy'), 'yyyy')": ("2021", "bad"),
    "UCASE(CAST(PARSE_DATE({}, 'yyyy') AS STRING))": ("2021", "bad"),
    "UCASE(STRUCT(X := EXTRACTJSONFIELD({}, '$'))->X)": ("1", "bad"),
    "UCASE(ARRAY[EXTRACTJSONFIELD({}, '$')][1])": ("1", "bad"),
}
"""What fails is an argument."""
ARITHMETIC = re.compile(" [-+/] ")
GOOD, BAD, MISSING = "good", "bad", "missing"
KINDS = (GOOD, BAD, MISSING)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call stands, over columns A and OK: the expression, and its value for a kind of row
    and OK, the value of the call being given."""

    sql: str
    of: Callable[[str, bool, Any], Any]


def _if_known(good: Any, missing: Any) -> Callable[[str, bool, Any], Any]:
    return lambda kind, ok, value: {GOOD: good, BAD: None, MISSING: missing}[kind]


PLACES = (
    Place("{f}", lambda kind, ok, value: value if kind == GOOD else None),
    Place("({f}) IS NULL", _if_known(False, True)),
    # What is no call, though it computes one.
    Place(
        "COALESCE(CASE WHEN ({f}) IS NULL THEN NULL ELSE {g} END, {g})",
        lambda kind, ok, value: None if kind == BAD else value,
    ),
    Place("CASE WHEN ({f}) IS NULL THEN 1 ELSE 2 END", _if_known(2, 1)),
    Place(
        "CASE WHEN OK THEN 0 WHEN ({f}) IS NULL THEN 1 ELSE 2 END",
        lambda kind, ok, value: 0 if ok else _if_known(2, 1)(kind, ok, value),
    ),
    Place(
        "CASE WHEN OK THEN {g} ELSE {f} END",
        lambda kind, ok, value: value if ok or kind == GOOD else None,
    ),
    Place(
        "OK AND ({f}) IS NULL",
        lambda kind, ok, value: _if_known(False, True)(kind, ok, value) if ok else False,
    ),
    Place(
        "OK OR ({f}) IS NULL",
        lambda kind, ok, value: True if ok else _if_known(False, True)(kind, ok, value),
    ),
    Place(
        "({f}) IS NULL OR OK",
        lambda kind, ok, value: _if_known(ok, True)(kind, ok, value),
    ),
    Place(
        "TRANSFORM(ARRAY[1, 2], x => CASE WHEN ({f}) IS NULL THEN x ELSE 0 END)",
        _if_known([0, 0], [1, 2]),
    ),
    Place(
        "TRANSFORM(ARRAY[A], x => CASE WHEN OK THEN FALSE ELSE ({f_of_x}) IS NULL END)",
        lambda kind, ok, value: [False] if ok else _if_known([False], [True])(kind, ok, value),
    ),
)  # fmt: skip

BY_ITSELF = (
    Place("COALESCE({f}, {g})", lambda kind, ok, value: value),
    Place("IFNULL({g}, {f})", lambda kind, ok, value: value),
    Place("(COALESCE({f}, {g})) IS NULL", lambda kind, ok, value: False),
    Place("ARRAY[{g}, {f}][2] IS NULL", lambda kind, ok, value: kind != GOOD),
    Place("ARRAY_LENGTH(ARRAY[1, CASE WHEN ({f}) IS NULL THEN 1 END])", lambda *_: 2),
    Place("MAP('a' := {f}, 'b' := {g})['a'] IS NULL", lambda kind, ok, value: kind != GOOD),
    Place("STRUCT(X := {f}, Y := OK)->X IS NULL", lambda kind, ok, value: kind != GOOD),
    Place("STRUCT(X := {f}, Y := OK)->Y", lambda kind, ok, value: ok),
    Place("CAST(({f}) IS NULL AS STRING) IS NULL", lambda kind, ok, value: kind == BAD),
    Place(
        "CASE WHEN OK THEN 0 WHEN COALESCE(CAST(({f}) IS NULL AS STRING), 'x') = 'x' THEN 1 END",
        lambda kind, ok, value: 0 if ok else 1 if kind == BAD else None,
    ),
    Place(
        "COALESCE(TRANSFORM(ARRAY[A], x => ({f_of_x}) IS NULL), ARRAY[OK])",
        lambda kind, ok, value: {GOOD: [False], BAD: [ok], MISSING: [True]}[kind],
    ),
    Place("TRANSFORM(ARRAY[1], x => COALESCE({f}, {g}))", lambda kind, ok, value: [value]),
    Place(
        "TRANSFORM(ARRAY[A], x => COALESCE({f_of_x}, {g}))",
        lambda kind, ok, value: [value],
    ),
)
"""Places in which the call is an argument, an item or the operand of a cast."""


class Rows:
    """A table of rows of all kinds, and expressions over it."""

    def __init__(self, con: duckdb.DuckDBPyConnection, kind: SqlType, good: Any, bad: Any) -> None:
        self.con = con
        self.schema = Schema((Column("A", kind), Column("OK", BOOLEAN)))
        values = {GOOD: good, BAD: bad, MISSING: None}
        self.known = [(what, ok) for ok in (True, False) for what in KINDS]
        self.rows = [(values[what], ok) for what, ok in self.known]
        places = range(len(self.rows))
        self.fill("t", kind, places)
        for place in places:
            self.fill(f"t{place}", kind, [place])

    def fill(self, table: str, kind: SqlType, places: Sequence[int]) -> None:
        columns = f'n INTEGER, "A" {duckdb_type(kind)}, "OK" BOOLEAN'
        self.con.execute(f"CREATE OR REPLACE TABLE {table} ({columns})")
        values = [value for place in places for value in (place, *self.rows[place])]
        self.con.execute(
            f"INSERT INTO {table} VALUES {', '.join(['(?, ?, ?)'] * len(places))}", values
        )

    def texts(self, sql: str, compiled: Callable[..., str]) -> tuple[str, str]:
        typed = type_expression(parse_expression(sql), Scope((("R", self.schema),), CATALOGUE))
        register(self.con, [typed], CATALOGUE)
        fast = compiled(typed, CATALOGUE, exact=False, columns=identifier)
        return fast, guarded_text(typed, CATALOGUE, identifier, compiled=compiled)

    def ask(self, query: str, fast: str, exact: str) -> list[Any]:
        """What a program gives: of the fast text, unless it raises."""
        try:
            return [v for (v,) in self.con.execute(query.format(fast)).fetchall()]
        except duckdb.Error:
            return [v for (v,) in self.con.execute(query.format(exact)).fetchall()]

    def all_of(self, sql: str) -> list[Any]:
        """The values of all rows, the same in one batch and row by row, fast and exact."""
        query = "SELECT {{0}} FROM {} ORDER BY n".format
        fast, exact = self.texts(sql, compile_expression)
        found = self.ask(query("t"), exact, exact)
        assert self.ask(query("t"), fast, exact) == found
        alone: list[Any] = []
        for place in range(len(self.rows)):
            alone += self.ask(query(f"t{place}"), fast, exact)
        assert alone == found
        return found


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(KEEP_FAILURES)
        register(connection)
        yield connection


FUNCTIONS = [
    *((sql, STRING, *values) for sql, values in TEXTS.items()),
    *((sql, INTEGER, *values) for sql, values in NUMBERS.items()),
    *((sql, BYTES, *values) for sql, values in BYTE_TEXTS.items()),
]


def literal(value: Any) -> str:
    if isinstance(value, bytes):
        return f"TO_BYTES('{value.hex()}', 'hex')"
    return repr(value) if isinstance(value, int) else f"'{value}'"


def check(rows: Rows, call: str, good: Any, places: Sequence[Place]) -> None:
    named = {"f": call.format("A"), "g": call.format(literal(good)), "f_of_x": call.format("x")}
    value = rows.all_of(named["g"])[0]
    assert value is not None
    for place in places:
        sql = place.sql.format(**named)
        expected = [place.of(what, ok, value) for what, ok in rows.known]
        if "{f_of_x}" in place.sql and ARITHMETIC.search(call):
            # There NULL is a failure of arithmetic.
            known = [(BAD if what == MISSING else what, ok) for what, ok in rows.known]
            expected = [place.of(what, ok, value) for what, ok in known]
        assert rows.all_of(sql) == expected, sql


@pytest.mark.parametrize(("call", "kind", "good", "bad"), FUNCTIONS, ids=lambda item: str(item))
def test_a_failure_is_one_of_the_whole_expression(
    con: duckdb.DuckDBPyConnection, call: str, kind: SqlType, good: Any, bad: Any
) -> None:
    check(Rows(con, kind, good, bad), call, good, PLACES)


@pytest.mark.parametrize(("call", "kind", "good", "bad"), FUNCTIONS, ids=lambda item: str(item))
def test_a_failure_is_null_by_itself(
    con: duckdb.DuckDBPyConnection, call: str, kind: SqlType, good: Any, bad: Any
) -> None:
    check(Rows(con, kind, good, bad), call, good, BY_ITSELF)


@pytest.mark.parametrize("call", NESTED)
def test_a_failing_argument_is_null(con: duckdb.DuckDBPyConnection, call: str) -> None:
    good, bad = NESTED[call]
    rows = Rows(con, STRING, good, bad)
    value = rows.all_of(call.format(literal(good)))[0]
    assert value is not None
    sql = call.format("A")
    assert rows.all_of(sql) == [value if what == GOOD else None for what, _ in rows.known]
    assert rows.all_of(f"({sql}) IS NULL") == [what != GOOD for what, _ in rows.known]


@pytest.mark.parametrize("call", ["PARSE_DATE({}, 'yyyy')", "EXTRACTJSONFIELD({}, '$[0]')"])
def test_conditions_leave_the_row_out(con: duckdb.DuckDBPyConnection, call: str) -> None:
    rows = Rows(con, STRING, "[2021]" if "JSON" in call else "2021", "bad")
    query = "SELECT n FROM (SELECT * FROM t) WHERE ({0}) ORDER BY n"
    for place in PLACES:
        sql = place.sql.format(f=call.format("A"), g=call.format("A"), f_of_x=call.format("x"))
        expected = [n for n, (what, ok) in enumerate(rows.known) if place.of(what, ok, 0) is True]
        if "IS NULL" not in sql or not any(expected) or "TRANSFORM" in sql or "CASE" in sql:
            continue
        fast, exact = rows.texts(sql, compile_predicate)
        assert rows.ask(query, fast, exact) == expected, sql
        assert rows.ask(query, exact, exact) == expected, sql


def test_what_is_null_and_no_failure(con: duckdb.DuckDBPyConnection) -> None:
    """What Java returns null for."""
    plain = (
        "CHR('K')",
        "JSON_KEYS('[1]')",
        "JSON_RECORDS('7')",
        "JSON_ITEMS('{}')",
        "JSON_ARRAY_LENGTH('7')",
        "JSON_CONCAT('[1]', '')",
        "JSON_ARRAY_LENGTH('')",
        "EXTRACTJSONFIELD('', '$.a')",
        "EXTRACTJSONFIELD('{}', '$.a')",
        "REGEXP_EXTRACT('b', 'abc', 3)",
        "REGEXP_EXTRACT('x', 'abc', -1)",
        "REGEXP_EXTRACT_ALL('b', 'abc', 3)",
        "LPAD('😀', -1, 'x')",
        "LPAD('😀', 4, '')",
    )
    rows = Rows(con, STRING, "x", "y")
    for call in plain:
        assert rows.all_of(f"({call}) IS NULL") == [True] * 6, call


def test_what_fails_in_python_is_called_for_whole_batches(con: duckdb.DuckDBPyConnection) -> None:
    """One row in 20,000 fails, and every seventh beside it in SQL."""
    calls: list[int] = []

    def counted(column: pa.Array) -> pa.Array:
        calls.append(len(column))
        return column

    python = rowwise(strict, pa.int32(), given=counted)
    variant = Variant("INTEGER -> INTEGER", python=python)
    catalogue = builtin_catalogue().with_functions(
        [ScalarFunction("COUNTED", "USER", (variant,), "", ())]
    )
    schema = Schema((Column("A", INTEGER), Column("B", INTEGER)))
    columns = 'range::INT - 1 AS "A", range::INT % 7 AS "B"'
    con.execute(f"CREATE OR REPLACE TABLE big AS SELECT {columns} FROM range(20000)")
    for sql in (
        "COALESCE(COUNTED(A), 0) + 1",
        "CASE WHEN B > 7 THEN COUNTED(A) ELSE 4 / B END",
        "COUNTED(CAST(CAST(A AS STRING) AS INTEGER)) + 4 / B",
    ):
        typed = type_expression(parse_expression(sql), Scope((("R", schema),), catalogue))
        register(con, [typed], catalogue)
        calls.clear()
        con.execute(f"SELECT {guarded_text(typed, catalogue, identifier)} FROM big").fetchall()
        assert sum(calls) == 20_000 and len(calls) < 20, sql


def test_an_array_that_fails_is_computed_row_by_row_once() -> None:
    calls: list[int] = []

    def function(values: pa.Array) -> pa.Array:
        calls.append(len(values))
        return strict_arrow(values)

    found = attempting(function)(pa.array([3, -1, None], pa.int32()))
    assert found.to_pylist() == [
        {"value": 3, "failed": False},
        {"value": None, "failed": True},
        {"value": None, "failed": False},
    ]
    assert calls == [3, 1, 1, 1]


def test_results_that_no_array_takes_fail_alone() -> None:
    made = rowwise(lambda day: day * 10**9, pa.date32())
    found = attempting(made)(pa.array([0, 5], pa.int32())).to_pylist()
    assert found[0] == {"value": datetime.date(1970, 1, 1), "failed": False}
    assert found[1] == {"value": None, "failed": True}

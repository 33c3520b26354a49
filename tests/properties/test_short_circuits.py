"""Random expressions whose parts fail or are NULL, against a reading of ksqlDB's rules row by row.

ksqlDB compiles an expression to Java, which gives the rules: an operand that raises makes the whole
column NULL (`ExpressionEvaluator`), so what counts is which operands are looked at. AND, OR and
CASE look at what they need. A comparison is `left == null || right == null ? false : …`, so that
the right side is not looked at where the left one is NULL; BETWEEN is two comparisons joined by
AND. All else takes its arguments as a call does: every one is computed. A NULL is a failure
where Java unboxes it: as an operand of AND, OR and NOT.

Some parts fail by themselves and are NULL then (`ksql.nested.error.set.null`, `SqlToJavaVisitor`):
a cast, an item of ARRAY, MAP or STRUCT, and an argument of a function that is a call itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.functions.catalogue import builtin_catalogue
from millstream.model.physical import duckdb_type
from millstream.model.schema import Column, Schema
from millstream.model.types import BOOLEAN, INTEGER, STRING
from millstream.operators.expressions import compile_expression, compile_predicate
from millstream.operators.guards import guarded_text
from millstream.operators.sql import identifier
from millstream.plan.scope import Scope
from millstream.plan.typing import type_expression
from millstream.state.store import KEEP_FAILURES
from millstream_parser import parse_expression
from tests.draws import draws
from tests.registered import register

CATALOGUE = builtin_catalogue()
SCHEMA = Schema(
    (Column("I", INTEGER), Column("J", INTEGER), Column("S", STRING), Column("B", BOOLEAN))
)
SCOPE = Scope((("R", SCHEMA),), CATALOGUE)
COLUMNS = ", ".join(f'"{column.name}" {duckdb_type(column.type)}' for column in SCHEMA.columns)
Value = int | bool | None
Row = tuple[int | None, int | None, str | None, bool | None]


class OperandError(Exception):
    """An operand has no value."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """An expression and what it is in a row."""

    sql: str
    of: Callable[[Row], Value]
    call: bool = False
    """Whether it is a call of a function."""

    def argument(self, row: Row) -> Value:
        """What a function receives of it."""
        return value(self, row) if self.call else self.of(row)


def wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def divided(a: int, b: int) -> int:
    if b == 0:
        raise OperandError
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": divided}
COMPARISONS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def arithmetic(sign: str, a: Drawn, b: Drawn) -> Drawn:
    def of(row: Row) -> Value:
        left, right = a.of(row), b.of(row)
        return None if left is None or right is None else wrapped(OPERATIONS[sign](left, right))

    return Drawn(f"({a.sql} {sign} {b.sql})", of)


def compared(sign: str, a: Drawn, b: Drawn) -> Drawn:
    def of(row: Row) -> Value:
        left = a.of(row)
        if left is None:
            return False
        right = b.of(row)
        return False if right is None else bool(COMPARISONS[sign](left, right))

    return Drawn(f"({a.sql} {sign} {b.sql})", of)


def distinct(a: Drawn, b: Drawn) -> Drawn:
    return Drawn(f"({a.sql} IS DISTINCT FROM {b.sql})", lambda row: a.of(row) != b.of(row))


def between(a: Drawn, low: Drawn, high: Drawn) -> Drawn:
    above, below = compared(">=", a, low), compared("<=", a, high)
    sql = f"({a.sql} BETWEEN {low.sql} AND {high.sql})"
    return Drawn(sql, lambda row: above.of(row) and below.of(row))


def listed(a: Drawn, options: list[Drawn]) -> Drawn:
    def of(row: Row) -> Value:
        value, *others = [item.of(row) for item in (a, *options)]
        return value is not None and value in [other for other in others if other is not None]

    return Drawn(f"({a.sql} IN ({', '.join(item.sql for item in options)}))", of)


def true(value: Value) -> bool:
    """A condition as Java unboxes it."""
    if value is None:
        raise OperandError
    return bool(value)


def both(a: Drawn, b: Drawn) -> Drawn:
    return Drawn(f"({a.sql} AND {b.sql})", lambda row: true(a.of(row)) and true(b.of(row)))


def either(a: Drawn, b: Drawn) -> Drawn:
    return Drawn(f"({a.sql} OR {b.sql})", lambda row: true(a.of(row)) or true(b.of(row)))


def negated(a: Drawn) -> Drawn:
    return Drawn(f"(NOT {a.sql})", lambda row: not true(a.of(row)))


def missing(a: Drawn) -> Drawn:
    return Drawn(f"({a.sql} IS NULL)", lambda row: a.of(row) is None)


def chosen(when: Drawn, then: Drawn, otherwise: Drawn | None) -> Drawn:
    def of(row: Row) -> Value:
        if when.of(row):
            return then.of(row)
        return None if otherwise is None else otherwise.of(row)

    tail = "" if otherwise is None else f" ELSE {otherwise.sql}"
    return Drawn(f"(CASE WHEN {when.sql} THEN {then.sql}{tail} END)", of)


def first(items: list[Drawn]) -> Drawn:
    def of(row: Row) -> Value:
        values = [item.argument(row) for item in items]
        return next((value for value in values if value is not None), None)

    return Drawn(f"COALESCE({', '.join(item.sql for item in items)})", of, call=True)


def unless_equal(a: Drawn, b: Drawn) -> Drawn:
    def of(row: Row) -> Value:
        left, right = a.argument(row), b.argument(row)
        return None if left == right else left

    return Drawn(f"NULLIF({a.sql}, {b.sql})", of, call=True)


def highest(a: Drawn, b: Drawn) -> Drawn:
    def of(row: Row) -> Value:
        return max((v for v in (a.argument(row), b.argument(row)) if v is not None), default=None)

    return Drawn(f"GREATEST({a.sql}, {b.sql})", of, call=True)


def whole(a: Drawn) -> Drawn:
    return Drawn(f"CAST({a.sql} AS INT)", lambda row: value(a, row))


def element(items: list[Drawn]) -> Drawn:
    sql = f"ARRAY[{', '.join(item.sql for item in items)}][1]"
    return Drawn(sql, lambda row: value(items[0], row))


def parsed(row: Row) -> Value:
    return None if row[2] in (None, "x") else int(row[2])


def number(value: int) -> Drawn:
    return Drawn(str(value), lambda row: value)


LEAVES = st.one_of(
    st.just(Drawn("I", lambda row: row[0])),
    st.just(Drawn("J", lambda row: row[1])),
    st.just(Drawn("CAST(S AS INT)", parsed)),
    st.integers(0, 6).map(number),
)
FLAGS = st.just(Drawn("B", lambda row: row[3]))


def numbers(inner: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    flag = conditions(inner)
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        st.builds(arithmetic, st.sampled_from(sorted(OPERATIONS)), inner, inner),
        st.builds(chosen, flag, inner, st.one_of(st.none(), inner)),
        several.map(first),
        st.builds(unless_equal, inner, inner),
        st.builds(highest, inner, inner),
        inner.map(whole),
        several.map(element),
    )


def conditions(given: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    simple = st.one_of(
        FLAGS,
        st.builds(compared, st.sampled_from(sorted(COMPARISONS)), given, given),
        st.builds(between, given, given, given),
        st.builds(listed, given, st.lists(given, min_size=1, max_size=3)),
        st.builds(distinct, given, given),
        given.map(missing),
    )
    return st.one_of(
        simple,
        st.builds(both, simple, simple),
        st.builds(either, simple, simple),
        simple.map(negated),
        simple.map(missing),
    )


NUMBERS = st.recursive(LEAVES, numbers, max_leaves=8)
EXPRESSIONS = st.one_of(NUMBERS, conditions(NUMBERS))
small = st.one_of(st.none(), st.integers(0, 3))
ROWS = st.lists(
    st.tuples(
        small, small, st.sampled_from([None, "1", "x", "7"]), st.sampled_from([None, True, False])
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(KEEP_FAILURES)
        register(connection)
        connection.execute(f"CREATE TABLE rows (n INTEGER, {COLUMNS})")
        yield connection


def value(drawn: Drawn, row: Row) -> Value:
    """What the column has: NULL where the expression fails."""
    try:
        return drawn.of(row)
    except OperandError:
        return None


def found(
    con: duckdb.DuckDBPyConnection, rows: list[Row], cut: int, fast: str, exact: str
) -> list[Value]:
    """DuckDB's values for the rows in two batches: of the fast text unless it raises."""
    values: list[Value] = []
    for batch in (rows[:cut], rows[cut:]):
        con.execute("DELETE FROM rows")
        if batch:
            parameters = [item for n, row in enumerate(batch) for item in (n, *row)]
            places = ", ".join(["(?, ?, ?, ?, ?)"] * len(batch))
            con.execute(f"INSERT INTO rows VALUES {places}", parameters)
        query = "SELECT {0} FROM rows ORDER BY n"
        try:
            got = con.execute(query.format(fast)).fetchall()
        except duckdb.Error:
            got = con.execute(query.format(exact)).fetchall()
        values += [item for (item,) in got]
    return values


@settings(max_examples=draws(150), deadline=None, database=None)
@given(drawn=EXPRESSIONS, rows=ROWS, cut=st.integers(0, 6))
def test_each_row_has_the_value_of_the_rules(
    con: duckdb.DuckDBPyConnection, drawn: Drawn, rows: list[Row], cut: int
) -> None:
    typed = type_expression(parse_expression(drawn.sql), SCOPE)
    fast = compile_expression(typed, CATALOGUE, exact=False, columns=identifier)
    exact = guarded_text(typed, CATALOGUE, identifier)
    expected = [value(drawn, row) for row in rows]
    assert found(con, rows, cut, fast, exact) == expected
    assert found(con, rows, cut, exact, exact) == expected


@settings(max_examples=draws(100), deadline=None, database=None)
@given(drawn=conditions(NUMBERS), rows=ROWS, cut=st.integers(0, 6))
def test_each_condition_keeps_the_rows_of_the_rules(
    con: duckdb.DuckDBPyConnection, drawn: Drawn, rows: list[Row], cut: int
) -> None:
    typed = type_expression(parse_expression(drawn.sql), SCOPE)
    fast = compile_predicate(typed, CATALOGUE, exact=False, columns=identifier)
    exact = guarded_text(typed, CATALOGUE, identifier, compiled=compile_predicate)
    kept = [bool(value(drawn, row)) for row in rows]
    texts = [f"coalesce({text}, FALSE)" for text in (fast, exact)]
    assert found(con, rows, cut, *texts) == kept

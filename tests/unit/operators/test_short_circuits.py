"""Which operands are evaluated beside operands that fail or are NULL.

AND, OR and CASE evaluate what they need; a comparison with NULL on its left and BETWEEN below its
lower bound are decided; everything else computes all of its operands, and a failure among these is
NULL for the whole column, whatever rows are computed together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pytest

from millstream.functions.catalogue import builtin_catalogue
from millstream.model.physical import duckdb_type
from millstream.model.schema import Column, Schema
from millstream.model.types import INTEGER, STRING
from millstream.operators.expressions import compile_expression, compile_predicate
from millstream.operators.guards import guarded_text
from millstream.operators.sql import identifier
from millstream.plan.scope import Scope
from millstream.plan.typing import type_expression
from millstream.state.store import KEEP_FAILURES
from millstream_parser import parse_expression
from tests.registered import register

CATALOGUE = builtin_catalogue()
SCHEMA = Schema((Column("I", INTEGER), Column("J", INTEGER), Column("S", STRING)))
SCOPE = Scope((("R", SCHEMA),), CATALOGUE)
ROWS = ((6, 2, "1"), (6, 0, "x"), (None, 0, None), (0, 3, "x"), (None, None, "7"))
"""I / J: 3, fails, NULL, 0, NULL. CAST(S AS INT): 1, fails, NULL, fails, 7."""

VALUES: dict[str, tuple[object, ...]] = {
    # All arguments are computed, whichever of them gives the result.
    "COALESCE(I, CAST(S AS INT))": (6, 6, None, 0, 7),
    "COALESCE(CAST(S AS INT), I)": (1, 6, None, 0, 7),
    "COALESCE(1, I / J)": (1, None, 1, 1, 1),
    "COALESCE(1, J, 6 / J)": (1, None, None, 1, 1),
    "IFNULL(2, 6 / J)": (2, None, None, 2, 2),
    "NULLIF(I, CAST(S AS INT))": (6, 6, None, 0, None),
    "ELT(1, 'p', CAST(6 / J AS STRING))": ("p",) * 5,
    "FIELD('a', 'a', CAST(6 / J AS STRING))": (1,) * 5,
    "COALESCE(SUBSTRING(S, 6 / J), '?')": ("", "?", "?", "", "?"),
    "I IN (6, CAST(S AS INT))": (True, True, False, False, False),
    "6 IN (6, 6 / J)": (True, None, None, True, True),
    "6 NOT IN (5, 6 / J)": (True, None, None, True, True),
    "S LIKE CAST(6 / J AS STRING)": (False,) * 5,
    "S LIKE CAST(CAST('a' AS INT) AS STRING)": (False,) * 5,
    # Parts that are NULL where they fail: casts, arguments that are calls, items.
    "COALESCE(6 / J, 1)": (3, None, None, 2, 1),
    "COALESCE(ABS(6 / J), 1)": (3, 1, 1, 2, 1),
    "COALESCE(CAST(6 / J AS BIGINT), 1)": (3, 1, 1, 2, 1),
    "CAST(S AS INT) IS NULL": (False, True, True, True, False),
    "ABS(6 / J) IS NULL": (False, None, None, False, True),
    "CASE WHEN CAST(S AS INT) IS NULL THEN 'a' ELSE 'b' END": ("b", "a", "a", "a", "b"),
    "ARRAY[6 / J, I]": ([3, 6], [None, 6], [None, None], [2, 0], [None, None]),
    "STRUCT(P := 6 / J, Q := 1)": tuple({"P": p, "Q": 1} for p in (3, None, None, 2, None)),
    "MAP('p' := 6 / J)['p']": (3, None, None, 2, None),
    "TRANSFORM(ARRAY['4', S], x => CAST(x AS INT))": (
        [4, 1],
        [4, None],
        [4, None],
        [4, None],
        [4, 7],
    ),
    "1 + COALESCE(ARRAY[6 / J][1], CAST(S AS INT), 5)": (4, 6, 6, 3, 8),
    # An operand of another type is converted, and fails as it did.
    "(CAST(I AS BIGINT) / (6 / J)) IS NULL": (False, None, None, False, True),
    "CAST(I AS BIGINT) > 6 / J": (True, None, False, False, False),
    "COALESCE(SQRT(6 / J), -1)": (3**0.5, -1.0, -1.0, 2**0.5, -1.0),
    "SQRT(6 / J) IS NULL": (False, True, True, False, True),
    # NULL is a value of arithmetic; a failure beside it is none.
    "(I * (6 / J)) IS NULL": (False, None, None, False, True),
    "COALESCE(I + CAST(S AS INT), -1)": (7, -1, -1, -1, -1),
    "COALESCE(NULLIF(I, I) - 6 / J, -1)": (-1, None, None, -1, -1),
    # Comparisons.
    "I = CAST(S AS INT)": (False,) * 5,
    "I < 6 / J": (False, None, False, True, False),
    "6 / J > I": (False, None, None, True, False),
    "NULLIF(J, J) = CAST(S AS INT)": (False,) * 5,
    "I IS DISTINCT FROM CAST(S AS INT)": (True, True, False, True, True),
    "NULLIF(J, J) IS NOT DISTINCT FROM 6 / J": (False, None, None, False, True),
    "I BETWEEN 7 AND 6 / J": (False,) * 5,
    "I BETWEEN 0 AND 6 / J": (False, None, False, True, False),
    "I BETWEEN 6 / J AND 9": (True, None, False, False, False),
    "I NOT BETWEEN CAST(S AS INT) AND 9": (False, True, True, True, True),
    # What is lazy.
    "J <> 0 AND 6 / J > 2": (True, False, False, False, False),
    "J = 0 OR 6 / J > 2": (True, True, True, False, False),
    "6 / J > 2 OR J = 0": (True, None, None, False, False),
    "NOT (J <> 0 AND 6 / J > 2)": (False, True, True, True, True),
    "CASE WHEN J = 0 THEN -1 ELSE 6 / J END": (3, -1, -1, 2, None),
    "CASE WHEN J = 0 THEN 1 / J WHEN 6 / J > 2 THEN 8 END": (8, None, None, None, None),
    "CASE WHEN I = CAST(S AS INT) THEN 1 ELSE 2 END": (2,) * 5,
    "CASE WHEN J = 0 THEN 0 ELSE COALESCE(1, I / 0) END": (None, 0, 0, None, 1),
    "COALESCE(CASE WHEN J <> 0 THEN 6 / J END, -1)": (3, -1, -1, 2, -1),
    "CASE WHEN 3 = 6 / J THEN 'a' WHEN 3 = 3 THEN 'b' END": ("a", None, None, "b", "b"),
    # One below the other.
    "(I IN (6, 6 / J)) IS NOT NULL AND S IS NOT NULL": (True, None, None, True, True),
    "COALESCE(COALESCE(I, 6 / J), CAST(S AS INT), 5)": (6, 5, 5, 0, 7),
    "TRANSFORM(ARRAY[1, 2], x => COALESCE(x, 6 / J))": ([1, 2], None, None, [1, 2], None),
}
CUTS = ((5,), (1, 1, 1, 1, 1), (2, 3), (3, 2), (1, 4))
COLUMNS = ", ".join(f'"{column.name}" {duckdb_type(column.type)}' for column in SCHEMA.columns)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(KEEP_FAILURES)
        register(connection)
        connection.execute(f"CREATE TABLE rows (n INTEGER, {COLUMNS})")
        yield connection


def batches(con: duckdb.DuckDBPyConnection, cut: Sequence[int]) -> Iterator[None]:
    """The rows, so many at a time, as the table `rows`."""
    start = 0
    for size in cut:
        con.execute("DELETE FROM rows")
        values = [value for n in range(start, start + size) for value in (n, *ROWS[n])]
        con.execute(f"INSERT INTO rows VALUES {', '.join(['(?, ?, ?, ?)'] * size)}", values)
        start += size
        yield


def fetched(con: duckdb.DuckDBPyConnection, fast: str | None, exact: str) -> list[object]:
    """What a query gives: of the fast text, unless it raises."""
    if fast is not None:
        try:
            return [value for (value,) in con.execute(fast).fetchall()]
        except duckdb.Error:
            pass
    return [value for (value,) in con.execute(exact).fetchall()]


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("text", VALUES)
@pytest.mark.parametrize("guarded", [False, True], ids=["fast", "exact"])
def test_values(
    con: duckdb.DuckDBPyConnection, text: str, cut: tuple[int, ...], guarded: bool
) -> None:
    typed = type_expression(parse_expression(text), SCOPE)
    register(con, [typed], CATALOGUE)
    fast = compile_expression(typed, CATALOGUE, exact=False, columns=identifier)
    exact = guarded_text(typed, CATALOGUE, identifier)
    query = "SELECT {0} FROM rows ORDER BY n"
    found: list[object] = []
    for _ in batches(con, cut):
        found += fetched(con, None if guarded else query.format(fast), query.format(exact))
    assert tuple(found) == VALUES[text]


@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize(
    "text", [text for text, values in VALUES.items() if any(value is True for value in values)]
)
@pytest.mark.parametrize("guarded", [False, True], ids=["fast", "exact"])
def test_conditions(
    con: duckdb.DuckDBPyConnection, text: str, cut: tuple[int, ...], guarded: bool
) -> None:
    typed = type_expression(parse_expression(text), SCOPE)
    register(con, [typed], CATALOGUE)
    fast = compile_predicate(typed, CATALOGUE, exact=False, columns=identifier)
    exact = guarded_text(typed, CATALOGUE, identifier, compiled=compile_predicate)
    query = "SELECT n FROM (SELECT * FROM rows) WHERE ({0}) ORDER BY n"
    found: list[object] = []
    for _ in batches(con, cut):
        found += fetched(con, None if guarded else query.format(fast), query.format(exact))
    assert found == [n for n, value in enumerate(VALUES[text]) if value is True]

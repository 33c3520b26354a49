"""Computes expressions of the dialect for the tests of this folder."""

from __future__ import annotations

from typing import Any

import duckdb

from millstream.functions.catalogue import builtin_catalogue
from millstream.model.expressions import Expression
from millstream.operators.expressions import compile_expression
from millstream.operators.scalar import is_volatile
from millstream.plan.scope import Scope
from millstream.plan.typing import type_expression
from millstream_parser import parse_expression
from tests.registered import register

CATALOGUE = builtin_catalogue()
SCOPE = Scope((), CATALOGUE, {}, {})
CON = duckdb.connect()


def value(text: str, *, exact: bool) -> Any:
    """The value of an expression of the dialect; NULL where the exact form fails."""
    if text == "NULL":
        return None
    expression: Expression = type_expression(parse_expression(text), SCOPE)
    register(CON, [expression], CATALOGUE)
    sql = compile_expression(expression, CATALOGUE, exact=exact, columns=lambda name: name)
    if exact and not is_volatile(expression, CATALOGUE):
        sql = f"TRY({sql})"
    # A row of a table, so that nothing is computed before the query runs.
    return CON.execute(f"SELECT {sql} FROM range(1)").fetchall()[0][0]


def check(expression: str, result: str) -> None:
    """Asserts that both forms of an expression have a value, the fast one unless it fails."""
    expected = repr(value(result, exact=True))
    assert repr(value(expression, exact=True)) == expected
    try:
        fast = value(expression, exact=False)
    except duckdb.Error:
        return
    assert repr(fast) == expected

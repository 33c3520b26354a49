"""ABS as Java's Math.abs: the lowest value of a type has no opposite and stays what it is."""

from __future__ import annotations

import pytest

from tests.unit.functions.evaluating import check


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("ABS(-5)", "5"),
        ("ABS(CAST(-2147483648 AS INT))", "CAST(-2147483648 AS INT)"),
        ("COALESCE(ABS(CAST(-2147483648 AS INT)), 1)", "CAST(-2147483648 AS INT)"),
        ("ABS(-2147483647)", "2147483647"),
        ("ABS(CAST('-9223372036854775808' AS BIGINT))", "CAST('-9223372036854775808' AS BIGINT)"),
        ("ABS(CAST(NULL AS INT))", "NULL"),
    ],
)
def test_absolute(expression: str, result: str) -> None:
    check(expression, result)

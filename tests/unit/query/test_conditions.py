"""What of a WHERE clause can be tested elsewhere, and which keys it leaves."""

from __future__ import annotations

import pytest

from millstream.functions.catalogue import builtin_catalogue
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import BIGINT, DOUBLE, INTEGER, STRING
from millstream.query.conditions import KEYS_MAX, Condition, condition_sql, conditions, pinned
from millstream.query.pull import plan_pull
from millstream_parser import parse
from millstream_parser import statements as s

SCHEMA = Schema(
    (
        Column("A", STRING, Role.KEY),
        Column("B", BIGINT, Role.KEY),
        Column("I", INTEGER),
        Column("D", DOUBLE),
    )
)


def found(where: str) -> list[tuple[str, str, tuple[int | str, ...]]]:
    (statement,) = parse(f"SELECT * FROM t WHERE {where};")
    assert isinstance(statement, s.SelectStatement) and statement.query is not None
    plan = plan_pull(statement.query, SCHEMA, "T", builtin_catalogue(), {})
    return [(c.column, c.operator, c.values) for c in plan.conditions]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a = 'x'", [("A", "=", ("x",))]),
        ("'x' = a AND 5 > b", [("A", "=", ("x",)), ("B", "<", (5,))]),
        ("b IN (1, 2) AND i >= -3", [("B", "=", (1, 2)), ("I", ">=", (-3,))]),
        ("t.a = 'x' AND (b <= 3 AND d > 1.5)", [("A", "=", ("x",)), ("B", "<=", (3,))]),
        ("a = 'x' OR b = 1", []),
        ("NOT a = 'x'", []),
        ("a <> 'x' AND b NOT IN (1)", []),
        ("a LIKE 'x%' AND ucase(a) = 'X'", []),
        ("b = i AND a IN ('x', ucase('y'))", []),
        ("d = 1", []),
    ],
)
def test_simple_conditions_are_found(
    where: str, expected: list[tuple[str, str, tuple[int | str, ...]]]
) -> None:
    assert found(where) == expected


def condition(column: str, *values: int | str) -> Condition:
    return Condition(column, "=", values)


def test_the_key_is_known_when_all_of_its_columns_are() -> None:
    both = (condition("A", "x", "y"), condition("B", 1))
    assert pinned(both, ["A", "B"]) == (("x", 1), ("y", 1))
    assert pinned(both, ["B"]) == ((1,),)
    assert pinned(both[:1], ["A", "B"]) is None
    assert pinned((Condition("A", "<", ("x",)),), ["A"]) is None
    assert pinned(both, []) is None


def test_very_many_keys_are_looked_for_everywhere() -> None:
    many = tuple(range(KEYS_MAX))
    assert pinned((condition("B", *many),), ["B"]) is not None
    assert pinned((condition("B", *many, -1),), ["B"]) is None
    assert pinned((condition("A", *many), condition("B", *many)), ["A", "B"]) is None


def test_conditions_quote_what_they_are_given() -> None:
    names = {"A": 'a"b'}
    assert condition_sql(condition("A", "it's", "x"), names) == "\"a\"\"b\" IN ('it''s', 'x')"
    assert condition_sql(Condition("A", ">=", (-1,)), names) == '"a""b" >= (-1)'


def test_no_clause_has_no_conditions() -> None:
    assert conditions(None) == ()

"""Expressions: precedence, every kind of operand, canonical text."""

from __future__ import annotations

import pytest
from sqlglot import exp

from millstream_parser import (
    SyntaxFailure,
    parse_expression,
    parse_type,
    print_expression,
    print_type,
)

PRINTED = [
    ("a + b * c - d", "((A + (B * C)) - D)"),
    ("a % b / c", "((A % B) / C)"),
    ("a || b + c", "(A || (B + C))"),
    ("a or b and not c = d", "(A OR (B AND (NOT (C = D))))"),
    ("a = b or c != d", "((A = B) OR (C <> D))"),
    ("a < 1 and b >= 2", "((A < 1) AND (B >= 2))"),
    ("-a * b", "(-A * B)"),
    ("- -1", "-(-1)"),
    ("+a", "A"),
    ("-2147483648", "-2147483648"),
    ("-9223372036854775808", "-9223372036854775808"),
    ("9223372036854775807", "9223372036854775807"),
    ("1.50", "1.50"),
    (".5", ".5"),
    ("1.", "1."),
    ("1.5E-3", "1.5E-3"),
    ("'it''s'", "'it''s'"),
    ("'a\\nb'", "'a\\nb'"),
    ("TRUE", "true"),
    ("Null", "null"),
    ("foo", "FOO"),
    ("`FOO`", "FOO"),
    ('"foo"', "`foo`"),
    ("`a``b`", "`a``b`"),
    ('"a""b"', '`a"b`'),
    ("a@b", "A@B"),
    ("s.c", "S.C"),
    ("s.`from`", "S.`from`"),
    ("a->b->`c d`", "A->B->`c d`"),
    ("s.a->b[1]->c", "S.A->B[1]->C"),
    ("m['k'][-1]", "M['k'][-1]"),
    ("`ARRAY`[1]", "`ARRAY`[1]"),
    ("(a + b)[1]", "(A + B)[1]"),
    ("f()", "F()"),
    ("Count(*)", "COUNT(*)"),
    ("dateadd(days, 1, d)", "DATEADD(DAYS, 1, D)"),
    ("dateadd(millisecond, 1, d)", "DATEADD(MILLISECONDS, 1, D)"),
    ("f(day, 1)", "F(DAY, 1)"),
    ("reduce(a, 0, (s, x) => s + x)", "REDUCE(A, 0, (S, X) => (S + X))"),
    ("transform(a, x => f(b, y => x + y))", "TRANSFORM(A, X => F(B, Y => (X + Y)))"),
    ("array[1, 2]", "ARRAY[1, 2]"),
    ("array[]", "ARRAY[]"),
    ("map('a' := 1, 'b' := 2)", "MAP('a':=1, 'b':=2)"),
    ("map()", "MAP()"),
    ("struct(a := 1, `b` := 2)", "STRUCT(A:=1, `b`:=2)"),
    ("struct()", "STRUCT()"),
    ("`MAP`(a)", "`MAP`(A)"),
    ("case when a then 1 else 2 end", "(CASE WHEN A THEN 1 ELSE 2 END)"),
    ("case a when 1 then 'x' when 2 then 'y' end", "(CASE A WHEN 1 THEN 'x' WHEN 2 THEN 'y' END)"),
    ("cast(a as varchar)", "CAST(A AS STRING)"),
    ("cast(a as decimal(4,2))", "CAST(A AS DECIMAL(4, 2))"),
    ("decimal '1.20'", "CAST('1.20' AS DECIMAL(3, 2))"),
    ("decimal '-0.5'", "CAST('-0.5' AS DECIMAL(2, 1))"),
    ("a between 1 and 2 and b", "((A BETWEEN 1 AND 2) AND B)"),
    ("a not between 1 and 2", "(NOT (A BETWEEN 1 AND 2))"),
    ("a in (1, b = c)", "(A IN (1, (B = C)))"),
    ("a not in (1)", "(NOT (A IN (1)))"),
    ("a like 'x%'", "(A LIKE 'x%')"),
    ("a not like 'x!%' escape '!'", "(NOT (A LIKE 'x!%' ESCAPE '!'))"),
    ("a is null", "(A IS NULL)"),
    ("a is not null", "(A IS NOT NULL)"),
    ("not a is null", "(A IS NOT NULL)"),
    ("a is distinct from b", "(A IS DISTINCT FROM B)"),
    ("a is not distinct from b", "(A IS NOT DISTINCT FROM B)"),
    ("a at time zone 'UTC'", "A AT TIME ZONE 'UTC'"),
    ("-1 at time zone 'UTC'", "-1 AT TIME ZONE 'UTC'"),
    ("(-a) at time zone 'UTC'", "(-A) AT TIME ZONE 'UTC'"),
]


@pytest.mark.parametrize(("text", "printed"), PRINTED)
def test_printed(text: str, printed: str) -> None:
    tree = parse_expression(text)
    assert print_expression(tree) == printed
    assert parse_expression(printed) == tree


TREES = [
    ("a", exp.Column(this=exp.Identifier(this="A", quoted=False))),
    (
        "s.`a b`",
        exp.Column(
            this=exp.Identifier(this="a b", quoted=True),
            table=exp.Identifier(this="S", quoted=False),
        ),
    ),
    ("-1", exp.Neg(this=exp.Literal.number("1"))),
    ("f(*)", exp.Anonymous(this="F", expressions=[exp.Star()])),
    ("f(days)", exp.Anonymous(this="F", expressions=[exp.Var(this="DAYS")])),
    (
        "'a' like 'b' escape '!'",
        exp.Escape(
            this=exp.Like(this=exp.Literal.string("a"), expression=exp.Literal.string("b")),
            expression=exp.Literal.string("!"),
        ),
    ),
    (
        "map(1 := 2)",
        exp.Map(
            keys=exp.Array(expressions=[exp.Literal.number("1")]),
            values=exp.Array(expressions=[exp.Literal.number("2")]),
        ),
    ),
]


@pytest.mark.parametrize(("text", "tree"), TREES)
def test_trees(text: str, tree: exp.Expression) -> None:
    assert parse_expression(text) == tree


TYPES = [
    ("int", "INTEGER"),
    ("varchar(string)", "STRING"),
    ("bytes", "BYTES"),
    ("decimal(10, 2)", "DECIMAL(10, 2)"),
    ("array<struct<a int, `b c` timestamp>>", "ARRAY<STRUCT<A INTEGER, `b c` TIMESTAMP>>"),
    ("map<string, array<boolean>>", "MAP<STRING, ARRAY<BOOLEAN>>"),
    ("int array", "ARRAY<INTEGER>"),
    ("address array", "ARRAY<ADDRESS>"),
    ("decimal(4, 2) array array", "ARRAY<ARRAY<DECIMAL(4, 2)>>"),
    ("map<string, varchar(9) array>", "MAP<STRING, ARRAY<STRING>>"),
    ("struct<a array<int> array, b int>", "STRUCT<A ARRAY<ARRAY<INTEGER>>, B INTEGER>"),
    ("struct<>", "STRUCT<>"),
    ("struct < >", "STRUCT<>"),
    ("address", "ADDRESS"),
    ("`INT`", "`INT`"),
    ("date", "DATE"),
]


@pytest.mark.parametrize(("text", "printed"), TYPES)
def test_types(text: str, printed: str) -> None:
    tree = parse_type(text)
    assert print_type(tree) == printed
    assert parse_type(printed) == tree


def test_types_are_what_sqlglot_builds() -> None:
    assert parse_type("decimal(4, 2)") == exp.DataType.build("DECIMAL(4, 2)")
    assert parse_type("array<int>") == exp.DataType.build("ARRAY<INT>")
    assert parse_type("map<varchar, bigint>") == exp.DataType.build("MAP<VARCHAR, BIGINT>")
    assert parse_type("address").args["kind"] == "ADDRESS"


def test_long_chains_of_and_stay_shallow() -> None:
    tree = parse_expression(" AND ".join(f"a = {n}" for n in range(1_000)))
    printed = print_expression(tree)
    assert parse_expression(printed) == tree
    assert [n.this.name for n in tree.find_all(exp.EQ, bfs=False)] == ["A"] * 1_000


REFUSED = [
    *("", "a b", "a +", "(a", "f(x => 1)", "f(1, x => 1, 2)", "a in ()", "case end", "a.b.c"),
    *("x'12'", "n'a'", "a like 'b' escape 'cc'", "decimal 'x'", "f(1,)", "cast(a int)", "1abc"),
    *("a[]", "a is true", "a not = b", "= 1", "a->", "array[1", "struct(1)", "f(days)()", "``"),
]


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(SyntaxFailure):
        parse_expression(text)

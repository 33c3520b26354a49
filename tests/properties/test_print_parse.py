"""parse(print(statement)) == statement, over the grammar and over nested expressions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream_grammar.sentences import sentence
from millstream_parser import (
    SyntaxFailure,
    parse,
    parse_expression,
    print_expression,
    print_statement,
)
from tests.draws import draws

CHUNK = 500


@pytest.mark.parametrize("first", range(0, draws(10_000), CHUNK))
def test_generated_statements_survive_printing(first: int) -> None:
    for seed in range(first, first + CHUNK):
        text = sentence(seed)
        try:
            (statement,) = parse(text)
            printed = print_statement(statement)
            (again,) = parse(printed)
            assert again == statement
            assert print_statement(again) == printed
        except (AssertionError, SyntaxFailure, ValueError) as error:
            pytest.fail(f"seed {seed}: {text}\n{error}")


def quoted(text: str) -> str:
    """The text as a literal."""
    return "'" + text.replace("'", "''") + "'"


LEAVES = (
    st.sampled_from(
        [
            "a",
            "`b c`",
            "s.c",
            "1",
            "2.50",
            "1e3",
            "'it''s'",
            "TRUE",
            "NULL",
            "f()",
            "COUNT(*)",
            "ARRAY",
        ]
    )
    | st.text(max_size=6).map(quoted)
    | st.text(alphabet="a'\"`\n \t\r\0\\$?:/*-;{}%\u2028😀\u200d", max_size=12).map(quoted)
)
SHAPES = [
    *(f"({{}}) {operator} ({{}})" for operator in ("+", "-", "*", "/", "%", "||", "=", "<>", "<")),
    *(
        "({}) AND ({})",
        "({}) OR ({})",
        "NOT ({})",
        "-({})",
        "- {}",
        "({})",
        "({})[({})]",
        "({})->x",
    ),
    *("({}) BETWEEN ({}) AND ({})", "({}) NOT IN ({}, {})", "({}) LIKE ({}) ESCAPE '!'"),
    *("({}) IS NOT NULL", "({}) IS DISTINCT FROM ({})", "({}) AT TIME ZONE 'UTC'"),
    *("CASE WHEN {} THEN {} ELSE {} END", "CASE ({}) WHEN {} THEN {} END", "f({}, {})"),
    *("CAST({} AS MAP<STRING, DECIMAL(4, 2)>)", "ARRAY[{}, {}]", "MAP({} := {})", "g(a, x => {})"),
    *("STRUCT(f := {}, `g h` := {})", "g(DAYS, {}, (x, y) => {})"),
]


@st.composite
def compound(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    shape = draw(st.sampled_from(SHAPES))
    return shape.format(*(draw(inner) for _ in range(shape.count("{}"))))


EXPRESSIONS = st.recursive(LEAVES, compound, max_leaves=25)


@settings(max_examples=draws(300), derandomize=True, database=None)
@given(EXPRESSIONS)
def test_nested_expressions_survive_printing(text: str) -> None:
    tree = parse_expression(text)
    printed = print_expression(tree)
    assert parse_expression(printed) == tree
    assert print_expression(parse_expression(printed)) == printed


@settings(max_examples=draws(200), derandomize=True, database=None)
@given(st.text(alphabet=st.sampled_from("ab1 '\"`(),.;-*/<>=$[]{}\n_@é\0😀\ud800\udc00")))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse(text)
    except SyntaxFailure as failure:
        assert 0 <= failure.span.start <= failure.span.end <= len(text) + 1

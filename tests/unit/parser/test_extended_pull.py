"""Pull queries beyond the dialect: only on request, and only without EMIT."""

from __future__ import annotations

import pytest

from millstream_parser import SyntaxFailure, parse, parse_expression, print_statement
from millstream_parser.statements import Explain, Listing, SelectStatement, Show

BEYOND = [
    "with x as (select * from t) select * from x",
    "select a from (select * from t)",
    "select distinct a from t order by 1",
    "select sum(a) over (partition by b) from t",
    "select 1 union all select 2",
]


@pytest.mark.parametrize("text", BEYOND)
def test_beyond_the_dialect(text: str) -> None:
    with pytest.raises(SyntaxFailure):
        parse(text)
    statements = parse(f"show streams; {text} ; show tables", extended_pull=True)
    assert statements[1] == SelectStatement(None, text)
    assert statements[::2] == (Show(Listing.STREAMS), Show(Listing.TABLES))
    assert print_statement(statements[1]) == text


def test_order_by_is_part_of_a_query() -> None:
    text = "select * from t where a = 1 order by b desc, c asc limit 3"
    (statement,) = parse(text, extended_pull=True)
    assert isinstance(statement, SelectStatement)
    assert statement.query is not None
    expected = ((parse_expression("b"), True), (parse_expression("c"), False))
    assert statement.query.order_by == expected
    assert parse(print_statement(statement), extended_pull=True) == (statement,)


def test_explained() -> None:
    inner = SelectStatement(None, BEYOND[0])
    assert parse(f"explain (plan) {BEYOND[0]};", extended_pull=True) == (
        Explain(inner, stage="PLAN"),
    )


STRICT = [
    *("selct a", "create x", "insert into s select distinct a from t"),
    *("select distinct a from t emit changes", "select a from t order by a emit changes"),
    "create table s as select a from t order by a",
]


@pytest.mark.parametrize("text", STRICT)
def test_everything_else_stays_strict(text: str) -> None:
    with pytest.raises(SyntaxFailure):
        parse(text, extended_pull=True)

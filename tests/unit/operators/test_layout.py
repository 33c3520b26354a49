"""The layout of SQL changes the space between tokens and nothing else."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import tokenize

from millstream.operators.layout import laid_out
from millstream.operators.sql import identifier, literal
from tests.draws import draws

TEXT = "SELECT shown FROM (SELECT {0} AS shown,\n   {1} FROM (VALUES (1)) x ({1})\n) WHERE TRUE"
ODD = st.text(alphabet="a'\" \n\r\t\\()[]-/*$;{}#%\u2028😀", min_size=1, max_size=20)
LONG = ", ".join(f'"a rather long name {number}"' for number in range(5))


@settings(max_examples=draws(300), derandomize=True, database=None)
@given(ODD, ODD)
def test_literals_and_names_keep_their_lines(text: str, name: str) -> None:
    shown = laid_out(TEXT.format(literal(text), identifier(name)))
    assert literal(text) in shown
    assert shown.count(identifier(name)) >= 2
    assert duckdb.sql(shown).fetchall() == [(text,)]


@pytest.mark.parametrize(
    "text",
    [
        'SELECT [1,\n2], {\'a\': "b\n  c"}\nFROM (\nSELECT 1 AS "b\n  c"\n)',
        f"SELECT CASE WHEN a THEN {LONG} ELSE CASE WHEN b THEN {LONG} END END AS x, f({LONG})",
        f"SELECT {LONG} FROM a WHERE b BETWEEN 1 AND 2 OR c IN ({LONG}) AND d IS DISTINCT FROM e",
    ],
)
def test_laid_out_text_is_the_same_statement(text: str) -> None:
    kinds = [(token.token_type, token.text) for token in tokenize(text, read="duckdb")]
    shown = laid_out(text)
    assert [(token.token_type, token.text) for token in tokenize(shown, read="duckdb")] == kinds
    assert laid_out(shown) == shown


def test_clauses_items_conditions_and_branches_begin_lines() -> None:
    tested = f"a BETWEEN 1 AND 2 AND CASE WHEN {LONG.replace(',', ' =')} THEN 1 ELSE 2 END"
    text = (
        f"WITH c AS (SELECT 1) SELECT DISTINCT {LONG} FROM a l ASOF LEFT JOIN b ON l.a > b.a "
        f"WHERE {tested} QUALIFY row_number() OVER (PARTITION BY {LONG} ORDER BY b) = 1"
    )
    assert laid_out(text).splitlines() == [
        "WITH c AS (SELECT 1)",
        "SELECT DISTINCT",
        '  "a rather long name 0",',
        '  "a rather long name 1",',
        '  "a rather long name 2",',
        '  "a rather long name 3",',
        '  "a rather long name 4"',
        "FROM a l",
        "ASOF LEFT JOIN b",
        "  ON l.a > b.a",
        "WHERE a BETWEEN 1 AND 2",
        "  AND CASE",
        "    WHEN " + LONG.replace(",", " =") + " THEN 1",
        "    ELSE 2",
        "  END",
        "QUALIFY row_number() OVER (",
        "  PARTITION BY",
        *(f'    "a rather long name {number}"{"," * (number < 4)}' for number in range(5)),
        "  ORDER BY b",
        ") = 1",
    ]


def test_a_comment_is_above_the_nested_select_that_it_is_for() -> None:
    inner = "SELECT 1 AS a"
    comments = {f"\n{inner}\n": ("-- one", "-- two")}
    shown = laid_out(
        f"SELECT a FROM (\n{inner}\n), (SELECT 2)", lambda text: comments.get(text, ())
    )
    assert shown.splitlines() == [
        "SELECT a",
        "FROM (",
        "  -- one",
        "  -- two",
        "  SELECT 1 AS a",
        "), (SELECT 2)",
    ]

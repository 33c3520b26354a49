"""Programs as text: layout changes the space between tokens and nothing else."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import tokenize

from millstream.operators.program import Sql
from millstream.operators.show import laid_out, show_step
from millstream.operators.sql import identifier, literal

INNER = "SELECT {0} AS shown,"
TEXT = f"SELECT shown\nFROM (\n{INNER}\n   {{1}}\nFROM (VALUES (1)) x ({{1}})\n)\nWHERE TRUE"
SHOWN = f"SELECT shown\nFROM (\n  {INNER}\n  {{1}}\n  FROM (VALUES (1)) x ({{1}})\n)\nWHERE TRUE"
ODD = st.text(alphabet="a'\" \n\r\t\\()[]-/*$;{}#%\u2028😀", min_size=1, max_size=20)


@settings(max_examples=300, derandomize=True, database=None)
@given(ODD, ODD)
def test_lines_are_indented_and_literals_are_not(text: str, name: str) -> None:
    given = TEXT.format(literal(text), identifier(name))
    assert laid_out(given) == SHOWN.format(literal(text), identifier(name))
    assert duckdb.sql(laid_out(given)).fetchall() == [(text,)]


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_laid_out_text_is_the_same_statement(depth: int) -> None:
    text = 'SELECT [1,\n2], {\'a\': "b\n  c"}\nFROM (\nSELECT 1 AS "b\n  c"\n)'
    shown = laid_out(text, depth)
    kinds = [(token.token_type, token.text) for token in tokenize(text, read="duckdb")]
    assert [(token.token_type, token.text) for token in tokenize(shown, read="duckdb")] == kinds


def test_a_step_shows_its_literal_as_it_is() -> None:
    assert "'a\n   b'" in show_step(Sql("x", "SELECT 'a\n   b'"))

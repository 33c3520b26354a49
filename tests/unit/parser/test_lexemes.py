"""Text that is still being written, in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream_parser.lexemes import LexemeKind, lexemes


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a 'b''c'", [(LexemeKind.WORD, "a", True), (LexemeKind.STRING, "'b''c'", True)]),
        ("'it", [(LexemeKind.STRING, "'it", False)]),
        ("`x /* y", [(LexemeKind.QUOTED, "`x /* y", False)]),
        ("1 1.5 1e3 1abc", [
            (LexemeKind.INTEGER, "1", True), (LexemeKind.DECIMAL, "1.5", True),
            (LexemeKind.FLOAT, "1e3", True), (LexemeKind.DIGIT_WORD, "1abc", True),
        ]),
        ("a->b", [(LexemeKind.WORD, "a", True), (LexemeKind.SYMBOL, "->", True), (LexemeKind.WORD,
        "b", True)]),
        ("-- 'x\n;", [(LexemeKind.COMMENT, "-- 'x", True), (LexemeKind.SYMBOL, ";", True)]),
        ("-- x", [(LexemeKind.COMMENT, "-- x", False)]),
        ("/* a", [(LexemeKind.COMMENT, "/* a", False)]),
        ("a.5 .5", [
            (LexemeKind.WORD, "a", True), (LexemeKind.SYMBOL, ".", True), (LexemeKind.INTEGER, "5",
            True), (LexemeKind.DECIMAL, ".5", True),
        ]),
        ("é", [(LexemeKind.WORD, "é", True)]),
    ],
)  # fmt: skip
def test_pieces(text: str, wanted: list[tuple[LexemeKind, str, bool]]) -> None:
    assert [(p.kind, p.text, p.closed) for p in lexemes(text)] == wanted


@given(st.text(alphabet="ab1 .'`\"-/*\n;()é$\\e", max_size=40))
def test_nothing_is_lost_and_nothing_fails(text: str) -> None:
    at = 0
    for lexeme in lexemes(text):
        assert lexeme.text == text[lexeme.start : lexeme.end] != ""
        assert text[at : lexeme.start].strip() == ""
        at = lexeme.end
    assert text[at:].strip() == ""


@pytest.mark.parametrize(
    ("text", "wanted"), [("'it''s'", "it's"), ("`a``b`", "a`b"), ('"a""b"', 'a"b'), ("a", "a")]
)
def test_what_quotes_stand_for(text: str, wanted: str) -> None:
    assert [lexeme.decoded for lexeme in lexemes(text)] == [wanted]

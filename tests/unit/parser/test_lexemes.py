"""Text that is still being written, in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream_parser.lexemes import Piece, lexemes


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a 'b''c'", [(Piece.WORD, "a", True), (Piece.STRING, "'b''c'", True)]),
        ("'it", [(Piece.STRING, "'it", False)]),
        ("`x /* y", [(Piece.QUOTED, "`x /* y", False)]),
        ("1 1.5 1e3 1abc", [
            (Piece.INTEGER, "1", True), (Piece.DECIMAL, "1.5", True),
            (Piece.FLOAT, "1e3", True), (Piece.DIGIT_WORD, "1abc", True),
        ]),
        ("a->b", [(Piece.WORD, "a", True), (Piece.SYMBOL, "->", True), (Piece.WORD, "b", True)]),
        ("-- 'x\n;", [(Piece.COMMENT, "-- 'x", True), (Piece.SYMBOL, ";", True)]),
        ("-- x", [(Piece.COMMENT, "-- x", False)]),
        ("/* a", [(Piece.COMMENT, "/* a", False)]),
        ("a.5 .5", [
            (Piece.WORD, "a", True), (Piece.SYMBOL, ".", True), (Piece.INTEGER, "5", True),
            (Piece.DECIMAL, ".5", True),
        ]),
        ("é", [(Piece.WORD, "é", True)]),
    ],
)  # fmt: skip
def test_pieces(text: str, wanted: list[tuple[Piece, str, bool]]) -> None:
    assert [(p.piece, p.text, p.closed) for p in lexemes(text)] == wanted


@given(st.text(alphabet="ab1 .'`\"-/*\n;()é$\\e", max_size=40))
def test_nothing_is_lost_and_nothing_fails(text: str) -> None:
    at = 0
    for piece in lexemes(text):
        assert piece.text == text[piece.start : piece.end] != ""
        assert text[at : piece.start].strip() == ""
        at = piece.end
    assert text[at:].strip() == ""


@pytest.mark.parametrize(
    ("text", "wanted"), [("'it''s'", "it's"), ("`a``b`", "a`b"), ('"a""b"', 'a"b'), ("a", "a")]
)
def test_what_quotes_stand_for(text: str, wanted: str) -> None:
    assert [lexeme.decoded for lexeme in lexemes(text)] == [wanted]

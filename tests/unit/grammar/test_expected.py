"""What may come next: checked against sentences of the language itself."""

from __future__ import annotations

import pytest

from millstream_grammar.expected import Word, expected
from millstream_grammar.grammar import Keyword, Lexical, Symbol
from millstream_grammar.sentences import sentence
from millstream_parser.lexemes import LexemeKind, lexemes
from tests.draws import draws


def words(text: str) -> list[Word]:
    return [
        Word(lexeme.kind.value, lexeme.upper)
        for lexeme in lexemes(text)
        if lexeme.kind is not LexemeKind.COMMENT
    ]


def following(text: str) -> set[str]:
    found = set()
    for item in expected(words(text)):
        match item.item:
            case Keyword(shown) | Symbol(shown):
                found.add(shown)
            case Lexical(kind):
                found.add(f"<{kind}>")
    return found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("CREATE OR", {"REPLACE"}),
        ("CREATE TYPE a AS DECIMAL (", {"<small>"}),
        ("SET", {"<string>"}),
        ("SET 'a' =", {"<string>"}),
        ("SET 'a' = 'b'", {";"}),
        ("SELECT a FROM", {"<name>", "PROCESS"}),
        ("SELECT a FROM PROCESS(", {"<name>"}),
        ("SELECT a FROM b EMIT", {"CHANGES", "FINAL"}),
        ("SELECT a FROM b GROUP", {"BY"}),
        ("SELECT FROM FROM", set()),
        ("nonsense", set()),
    ],
)
def test_what_may_follow(text: str, wanted: set[str]) -> None:
    assert following(text) == wanted


def test_rules_are_named_from_the_inside() -> None:
    item = expected(words("SELECT a FROM"))[0]
    assert item.rules == ("source", "query", "select", "statement")


@pytest.mark.parametrize("seed", range(draws(150)))
def test_every_sentence_can_be_written_word_by_word(seed: int) -> None:
    tokens = words(sentence(seed))
    assert any(item.item == Symbol(";") for item in expected(tokens)), sentence(seed)


def test_nesting_does_not_multiply() -> None:
    assert ")" in following("SELECT " + "(" * 40 + "a")

"""The grammar as data: its notation, its completeness, its words."""

from __future__ import annotations

import pytest

from millstream_grammar.grammar import (
    Choice,
    Keyword,
    Lexical,
    Node,
    Optional,
    Repeat,
    Rule,
    Sequence,
    Symbol,
    productions,
    read,
    references,
    statement_names,
)
from millstream_grammar.keywords import HARD, SOFT, TIME_UNITS

CONTEXTUAL = {
    "BACKUP",
    "COPY",
    "KEEP",
    "OF",
    "OFF",
    "OFFSETS",
    "PLAN",
    "PROCESS",
    "PROGRAM",
    "REPLAY",
    "SPOOL",
    "STATEMENT",
    "TOPOLOGY",
}
"""Words with a meaning in one place only; they are no keywords."""
TYPES = {"BIGINT", "BOOLEAN", "BYTES", "DOUBLE", "INT", "VARCHAR"}


def keywords(node: Node) -> set[str]:
    match node:
        case Keyword(text):
            return {text}
        case Sequence(items) | Choice(items):
            return {word for item in items for word in keywords(item)}
        case Optional(item) | Repeat(item, _):
            return keywords(item)
        case _:
            return set()


def test_notation() -> None:
    text = "# A title\nstart ::= ONE [ two ] ('x' | <name>)*\n    | two+\n\ntwo ::= '|'\n"
    rules = read(text)
    assert rules["start"].title == "A title"
    assert rules["start"].body == Choice(
        (
            Sequence(
                (
                    Keyword("ONE"),
                    Optional(Rule("two")),
                    Repeat(Choice((Symbol("x"), Lexical("name"))), 0),
                )
            ),
            Repeat(Rule("two"), 1),
        )
    )
    assert rules["two"].body == Symbol("|")
    assert rules["two"].title == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a ::= b", "refers to b"),
        ("a ::= A\na ::= B", "twice"),
        ("a ::= ( A", "never closed"),
        ("a ::= A )", "nothing opens"),
        ("a ::= A |", "empty"),
        ("a ::= * A", "follows nothing"),
        ("a ::= ?", "cannot read"),
    ],
)
def test_mistakes_in_the_notation_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(text)


def test_every_production_is_reached() -> None:
    reached, waiting = {"script"}, ["script"]
    while waiting:
        for name in references(productions()[waiting.pop()].body):
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    assert reached == set(productions())


def test_every_statement_has_a_title() -> None:
    assert len(statement_names()) == 40
    assert [name for name in statement_names() if not productions()[name].title] == []


def test_every_word_of_the_grammar_is_known() -> None:
    used = {word for rule in productions().values() for word in keywords(rule.body)}
    assert used - HARD - SOFT - TYPES == CONTEXTUAL


def test_a_keyword_is_either_soft_or_hard() -> None:
    assert not HARD & SOFT
    assert set(TIME_UNITS) <= HARD | SOFT
    assert set(TIME_UNITS.values()) <= HARD

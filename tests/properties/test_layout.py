"""The layout of SQL changes nothing of what it says, is its own layout, and loses no comment."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from millstream_grammar.sentences import sentence
from millstream_parser.failure import SyntaxFailure
from millstream_parser.layout import WIDTH, format_script
from millstream_parser.lexemes import Lexeme, LexemeKind, lexemes
from millstream_parser.printer import print_statement
from millstream_parser.script import parse
from tests.draws import draws

COMMENTS = ("-- a word\n", "/* two\n   lines */", "--\n", "/**/", "-- it's; not 'text'\n")


def read(text: str) -> list[str] | None:
    """The statements of a text; None if it is not SQL."""
    try:
        return [print_statement(each) for each in parse(text)]
    except SyntaxFailure:
        return None


def words(text: str) -> list[str]:
    """The lexemes of a text with the case of words left out."""
    return [each.upper or each.text.rstrip() for each in lexemes(text)]


def check(text: str) -> None:
    once = format_script(text)
    assert words(once) == words(text)
    assert read(once) == read(text)
    assert format_script(once) == once, text
    assert not any(line != line.rstrip() for line in once.split("\n") if "'" not in line)


@pytest.mark.parametrize("first", range(0, draws(1_500), 100))
def test_random_statements(first: int) -> None:
    for seed in range(first, first + 100):
        statement = sentence(seed, depth=10)
        assert read(statement) is not None
        check(f"{statement};")


@pytest.mark.parametrize("first", range(0, draws(500), 100))
def test_with_comments_and_white_space_anywhere(first: int) -> None:
    for seed in range(first, first + 100):
        rng = random.Random(seed)
        text = ";\n".join(sentence(3 * seed + n, depth=6) for n in range(3)) + ";"
        check("".join(_spaced(list(lexemes(text)), text, rng)))


def _spaced(found: list[Lexeme], text: str, rng: random.Random) -> list[str]:
    result = []
    for before, lexeme in zip([None, *found], found, strict=False):
        gap = text[before.end : lexeme.start] if before else ""
        if gap or (
            before and rng.random() < 0.1 and LexemeKind.SYMBOL not in (before.kind, lexeme.kind)
        ):
            result.append(
                rng.choice((" ", "\n", "\n\n\n", "\t  ", f" {rng.choice(COMMENTS)} ", gap)) or " "
            )
        result.append(lexeme.text)
    return result


@pytest.mark.parametrize("seed", range(draws(200)))
def test_what_is_no_sql_stays(seed: int) -> None:
    rng = random.Random(seed)
    alphabet = (
        *"()[]<>{}$.,;:=-+*/%?'`\"|!",
        " ",
        "\n",
        "--",
        "/*",
        "*/",
        "a",
        "SELECT",
        "1",
        "->",
    )
    text = "".join(rng.choice(alphabet) for _ in range(rng.randrange(60)))
    once = format_script(text)
    assert words(once) == words(text)
    assert format_script(once) == once, (text, once)


def test_lines_that_are_too_long_have_no_place_to_break_at() -> None:
    """A list of columns would be broken at its commas, a condition at AND and OR."""
    for seed in range(300):
        text = format_script(f"{sentence(seed, depth=12)};")
        if any("\n" in each.text for each in lexemes(text)):
            continue
        for line in text.split("\n"):
            if len(line) > WIDTH:
                outer = words_outside_of_brackets(line)
                assert all(
                    next_ == "REPLACE" for word, next_ in pairwise(outer[1:]) if word == "OR"
                )
                assert not (outer[0] == "SELECT" and "," in outer[:-1]), line


def words_outside_of_brackets(line: str) -> list[str]:
    found, depth = [], 0
    for each in lexemes(line):
        depth -= each.upper in {")", "]"}
        if depth <= 0:
            found.append(each.upper)
        depth += each.upper in {"(", "["}
    return found


@pytest.mark.parametrize("before", ["", "(" * 200])
def test_white_space_in_strings_stays(before: str) -> None:
    text = f"SELECT {before}'a  \n  b', c FROM s;"
    assert words(format_script(text)) == words(text)

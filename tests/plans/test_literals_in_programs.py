"""A literal reaches a program as one token and changes no other.

The texts of programs are compared token by token, so it does not matter which rows a run gives or
which of its steps are reached: the code that joined the text did not change a literal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from sqlglot import tokenize
from sqlglot.tokenizer_core import TokenType

import millstream
from millstream.executor.executor import DuckDBExecutor
from millstream.operators.program import Program, Repeat, Sql, Step
from tests.unit.service.test_literals import QUERIES, SCRIPT, TEXTS, written

PLAIN = "plain"
Tokens = list[tuple[TokenType, str]]


def texts(steps: Sequence[Step]) -> Iterator[str]:
    """The SQL of steps, in order."""
    for step in steps:
        match step:
            case Sql(_, text):
                yield text
            case Repeat(_, inner):
                yield from texts(inner)


def tokens(program: Program) -> Iterator[Tokens]:
    """The tokens of each statement of a program."""
    for text in (*texts(program.steps), *texts(program.exact)):
        yield [(token.token_type, token.text) for token in tokenize(text, read="duckdb")]


def programs(text: str) -> dict[tuple[str, int], list[Tokens]]:
    """Of each query of the script, with the literal in its places, and each of its executors."""
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(written(SCRIPT, PLAIN) + written(QUERIES, text))
        found = {}
        for query_id in db.engine.catalog.queries:
            # The number that an id ends in is the same in every run.
            for place, executor in enumerate(db.engine.runtime.executors(query_id)):
                assert isinstance(executor, DuckDBExecutor)
                found[query_id, place] = list(tokens(executor.active.program))
        return found


@pytest.fixture(scope="module")
def plain() -> dict[tuple[str, int], list[Tokens]]:
    return programs(PLAIN)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_only_the_token_of_the_literal_differs(
    text: str, plain: dict[tuple[str, int], list[Tokens]]
) -> None:
    odd = programs(text)
    assert odd.keys() == plain.keys()
    replaced = 0
    for place, statements in odd.items():
        assert len(statements) == len(plain[place])
        for got, expected in zip(statements, plain[place], strict=True):
            literal = (TokenType.STRING, PLAIN)
            wanted = [(TokenType.STRING, text) if item == literal else item for item in expected]
            replaced += expected.count(literal)
            assert got == wanted
    assert replaced > 20, "the programs hold the literal"

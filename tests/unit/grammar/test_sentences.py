"""Sentences drawn from the grammar."""

from __future__ import annotations

import pytest

from millstream_grammar.grammar import productions, statement_names
from millstream_grammar.sentences import sentence


def test_a_seed_always_gives_the_same_sentence() -> None:
    assert [sentence(seed) for seed in range(50)] == [sentence(seed) for seed in range(50)]
    assert len({sentence(seed) for seed in range(50)}) > 40


@pytest.mark.parametrize("start", list(productions()))
def test_every_production_has_a_shortest_sentence(start: str) -> None:
    assert len(sentence(1, start, depth=0)) < 200


@pytest.mark.parametrize("start", statement_names())
def test_depth_bounds_the_length(start: str) -> None:
    assert max(len(sentence(seed, start, depth=3)) for seed in range(30)) < 3_000

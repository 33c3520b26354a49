"""Simulations with restoration: they pass, both sides interleave, and planted bugs are detected."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.draws import draws
from tests.simulation.following import play_following
from tests.simulation.following_mutants import FOLLOWING_MUTANTS
from tests.simulation.run import first_failure


def test_seeds_pass_and_tasks_change_hands() -> None:
    stats: Counter[str] = Counter()
    for seed in range(1, draws(150)):
        verdict = play_following(seed)
        assert not verdict.complaints, f"seed {seed}: {verdict.complaints[:3]}"
        stats += verdict.stats
    assert stats["handed over"] > draws(300)
    assert stats["fenced"] > draws(50)
    assert stats["switch"] > draws(2000)
    assert stats["at replica.restore"] > draws(400)
    assert stats["at replica.clear"] > draws(5)


def test_a_seed_plays_the_same_each_time() -> None:
    first, second = play_following(5), play_following(5)
    assert (first.digest, first.stats) == (second.digest, second.stats)


@pytest.mark.parametrize("name", sorted(FOLLOWING_MUTANTS))
def test_planted_bug_is_found(name: str) -> None:
    assert first_failure(range(1500), FOLLOWING_MUTANTS[name]) is not None, name

"""The simulation of copies and warm-ups: it passes, it repeats itself, what it is about happens in
it, and it notices planted bugs."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.draws import draws
from tests.planted import planted
from tests.simulation.warming import WarmingWorld
from tests.simulation.warming_mutants import WARMING_MUTANTS


@pytest.mark.parametrize("first", range(0, draws(60), 20))
def test_seeds_pass_and_what_it_is_about_happens(first: int) -> None:
    stats: Counter[str] = Counter()
    for seed in range(first, first + 20):
        world = WarmingWorld(seed)
        assert not world.run(), seed
        stats += world.stats
    assert stats.keys() == {"warmups", "moved", "taken over"}


def test_a_seed_plays_the_same_each_time() -> None:
    first, second = WarmingWorld(7), WarmingWorld(7)
    first.run()
    second.run()
    assert (first.topic, first.ends) == (second.topic, second.ends)


@pytest.mark.parametrize("name", sorted(WARMING_MUTANTS))
def test_planted_bug_is_found(name: str) -> None:
    with planted(*WARMING_MUTANTS[name]):
        assert any(WarmingWorld(seed).run() for seed in range(60)), name

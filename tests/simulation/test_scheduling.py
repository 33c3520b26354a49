"""The simulation of the ready queue: it passes, it repeats itself, and it notices planted bugs."""

from __future__ import annotations

import pytest

from tests.draws import draws
from tests.simulation.scheduling import SchedulingWorld, play_scheduling
from tests.simulation.scheduling_mutants import SCHEDULING_MUTANTS


def test_nothing_is_left_undone_and_settled_means_done() -> None:
    for seed in range(draws(300)):
        assert not play_scheduling(seed), seed


def test_a_seed_plays_the_same_each_time() -> None:
    for seed in (3, 4, 17):
        first, second = SchedulingWorld(seed), SchedulingWorld(seed)
        first.run()
        second.run()
        assert (first.now, first.turns, first.left) == (second.now, second.turns, second.left)


@pytest.mark.parametrize("name", sorted(SCHEDULING_MUTANTS))
def test_planted_bug_is_found(name: str) -> None:
    mutant = SCHEDULING_MUTANTS[name]
    assert any(play_scheduling(seed, mutant) for seed in range(1500)), name

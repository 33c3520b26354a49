"""Windows that close because a query is idle make no record late that was there before."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.draws import draws
from tests.simulation.closing import CLOSING_MUTANTS, play_closing
from tests.simulation.run import first_failure

SEEDS = range(draws(120))


def test_seeds_pass_and_windows_close() -> None:
    stats: Counter[str] = Counter()
    for seed in SEEDS:
        verdict = play_closing(seed)
        assert not verdict.complaints, f"seed {seed}: {verdict.complaints[:3]}"
        stats += verdict.stats
    assert stats["closed"] > len(SEEDS)
    assert stats["crash"] > draws(20)


BEGIN = {
    "a watermark that runs ahead of held rows": 100,
    "windows closed before other instances are done": 50,
}
"""Where the search for those begins that few seeds find: any 1,000 seeds would do."""


@pytest.mark.parametrize("name", sorted(CLOSING_MUTANTS))
def test_planted_bug_is_found(name: str) -> None:
    begin = BEGIN.get(name, 0)
    assert first_failure(range(begin, begin + 1000), CLOSING_MUTANTS[name]) is not None, name

"""A hundred random queries against plain DuckDB; `make differential QUERIES=n` runs more."""

from __future__ import annotations

import pytest

from tests.differential.check import failure, show
from tests.differential.generator import KINDS, case
from tests.draws import draws

QUERIES = 100


@pytest.mark.parametrize("seed", range(draws(QUERIES)))
def test_the_engine_answers_as_duckdb_does(seed: int) -> None:
    # Every kind comes up equally often here; the command draws them.
    found = failure(case(seed, KINDS[seed % len(KINDS)]))
    if found is not None:
        pytest.fail(show(found), pytrace=False)

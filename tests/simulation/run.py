"""`python -m tests.simulation.run --seeds 2000 [--start N] [--mutant NAME] [--query NAME]`.

Plays seeds and stops at the first one that fails, with the line that plays it again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulation.closing import CLOSING_MUTANTS, ClosingMutant, play_closing
from tests.simulation.following import FollowingMutant, play_following
from tests.simulation.following_mutants import FOLLOWING_MUTANTS
from tests.simulation.hand_over_mutants import HAND_OVER_MUTANTS
from tests.simulation.mutants import MUTANTS
from tests.simulation.real import QUERIES, play_real
from tests.simulation.scheduling import SchedulingMutant, play_scheduling
from tests.simulation.scheduling_mutants import SCHEDULING_MUTANTS
from tests.simulation.sharing import SharingMutant, play_sharing
from tests.simulation.sharing_mutants import SHARING_MUTANTS
from tests.simulation.world import RATES, Mutant, Verdict, play

REAL_EVERY = 20
FOLLOWING_EVERY = 4
CLOSING_EVERY = 7
TELLING_EVERY = 1_000
AnyMutant = Mutant | SchedulingMutant | SharingMutant


def play_seed(seed: int, mutant: AnyMutant | None = None) -> Verdict:
    """One seed; every twentieth runs SQL on DuckDB executors, and on the hosts of every fourth of
    the others, state is restored beside processing; every seventh has windows that close because
    the query is idle. Each also plays the queries of one instance, which threads take from the
    ready queue, and the queries of several instances, each of which has one membership for all of
    them."""
    if isinstance(mutant, FollowingMutant):
        return play_following(seed, mutant)
    if isinstance(mutant, ClosingMutant):
        return play_closing(seed, mutant)
    if isinstance(mutant, SchedulingMutant):
        return _scheduled(seed, mutant)
    if isinstance(mutant, SharingMutant):
        return _shared(seed, mutant)
    if mutant is not None:
        return play(seed, mutant)
    if (scheduled := _scheduled(seed)).complaints:
        return scheduled
    if (shared := _shared(seed)).complaints:
        return shared
    if seed % REAL_EVERY == 0:
        return play_real(seed)
    if seed % CLOSING_EVERY == 0:
        return play_closing(seed)
    return play_following(seed) if seed % FOLLOWING_EVERY == 0 else play(seed)


def _scheduled(seed: int, mutant: SchedulingMutant | None = None) -> Verdict:
    return Verdict(seed, "scheduling", [*play_scheduling(seed, mutant)], 0, 0)


def _shared(seed: int, mutant: SharingMutant | None = None) -> Verdict:
    return Verdict(seed, "sharing", play_sharing(seed, mutant), 0, 0)


def first_failure(seeds: range, mutant: AnyMutant | None = None) -> Verdict | None:
    """The first seed that fails, if any does."""
    verdicts = (play_seed(seed, mutant) for seed in seeds)
    return next((verdict for verdict in verdicts if verdict.complaints), None)


def main() -> int:
    """Returns the exit code: 1 when a seed failed (with a mutant: when none did)."""
    planted: dict[str, AnyMutant] = {
        **MUTANTS,
        **HAND_OVER_MUTANTS,
        **FOLLOWING_MUTANTS,
        **CLOSING_MUTANTS,
        **SCHEDULING_MUTANTS,
        **SHARING_MUTANTS,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--mutant", choices=sorted(planted))
    parser.add_argument("--query", choices=sorted(QUERIES), help="only this one of real executors")
    options = parser.parse_args()
    mutant = planted[options.mutant] if options.mutant else None
    began = time.process_time()
    stats: Counter[str] = Counter()
    played = 0
    for seed in range(options.start, options.start + options.seeds):
        query = options.query
        verdict = play_real(seed, query=query) if query else play_seed(seed, mutant)
        played += 1
        stats += verdict.stats
        if played % TELLING_EVERY == 0:
            print(f"{played} seeds without a failure", file=sys.stderr, flush=True)
        if verdict.complaints:
            again = f"--seeds 1 --start {seed}" + (f" --mutant {options.mutant}" if mutant else "")
            again += f" --query {query}" if query else ""
            print(f"seed {seed} ({verdict.shape}) FAILED after {played} seeds")
            for complaint in verdict.complaints[:5]:
                print(f"  {complaint}")
            print(f"  again: python -m tests.simulation.run {again}")
            return 0 if mutant else 1
    spent = max(time.process_time() - began, 1e-9)
    faults = sum(stats[name] for name in RATES)
    print(f"{played} seeds, {faults} faults, no failure; {played / spent:.0f} seeds/s")
    for name, count in sorted(stats.items()):
        print(f"  {name:22} {count}")
    return 1 if mutant else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Every statement of the conformance cases made wrong: `python -m tests.refusals.run`.

`--every n` tries one in n mutants of queries and sources, and one in n cases for the rest.
"""

from __future__ import annotations

import argparse
import sys
from random import Random

from tests.refusals.test_live import cases, wrong_about
from tests.refusals.test_refusals import scripts, wrong


def main() -> int:
    """Print all failures; returns 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    found: dict[str, str] = {}
    some_scripts, some_cases = scripts(), cases()
    for script, properties in some_scripts:
        for doubt in wrong(script, properties, given.every):
            _show(doubt, found)
    chosen = Random(given.seed).sample(some_cases, len(some_cases) // given.every)
    for case in chosen:
        for doubt in wrong_about(case):
            _show(doubt, found)
    print(f"{len(some_scripts)} scripts, {len(chosen)} cases with what they make, one mutant in")
    print(f"{given.every}: {len(found)} mutants are not refused as they must be")
    return 1 if found else 0


def _show(doubt: str, found: dict[str, str]) -> None:
    if doubt not in found:
        found[doubt] = doubt
        print(doubt, end="\n---\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""Random queries run by the engine and answered by plain DuckDB over the whole input.

    python -m tests.differential.run --queries 2000 --seed 0

Query n has seed SEED + n. A mismatch is printed with its statements, the smallest input that could
be found, the expected and the actual output; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter

from tests.differential.check import failure, show
from tests.differential.generator import KINDS, case


def judged(job: tuple[int, str | None, bool]) -> tuple[int, str, str]:
    """(seed, kind, what is wrong) of one case."""
    seed, kind, shrink = job
    made = case(seed, kind)
    found = failure(made, shrink=shrink)
    return seed, made.kind, "" if found is None else show(found)


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    options = _options().parse_args(arguments)
    jobs = [
        (options.seed + number, options.kind, not options.no_shrink)
        for number in range(options.queries)
    ]
    started = time.monotonic()
    kinds: Counter[str] = Counter()
    failed: list[int] = []
    with multiprocessing.get_context("spawn").Pool(min(options.processes, len(jobs))) as pool:
        for seed, kind, text in pool.imap(judged, jobs, chunksize=4 if len(jobs) > 50 else 1):
            kinds[kind] += 1
            if text:
                failed.append(seed)
                print(f"{text}\n{'-' * 100}", flush=True)
        pool.close()
        pool.join()
    print(", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))
    last = options.seed + options.queries - 1
    print(
        f"{len(jobs)} queries, seeds {options.seed} to {last}, {len(failed)} mismatches, "
        f"{time.monotonic() - started:.0f} s"
    )
    if failed:
        print(f"failed seeds: {' '.join(map(str, failed))}")
    return 1 if failed else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="differential", description=__doc__)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=sorted(KINDS), help="only queries of this kind")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--no-shrink", action="store_true", help="print failing inputs whole")
    return parser


if __name__ == "__main__":
    sys.exit(main())

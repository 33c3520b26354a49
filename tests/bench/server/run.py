"""How many queries a server answers, over a table of many keys: `make bench-server`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.bench.server.pulls import GOAL_P99_MS, GOAL_PER_S, pulls
from tests.bench.server.world import load, serving


def main(arguments: list[str]) -> int:
    """Measure, and report; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="tests.bench.server.run", description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000, help="rows of the table")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--keep", type=Path, help="a folder that keeps the table for the next time")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as passing:
        folder = options.keep or Path(passing)
        if not folder.exists() or not any(folder.iterdir()):
            folder.mkdir(parents=True, exist_ok=True)
            load(folder, options.keys)
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores before", flush=True)
        with serving(folder) as server:
            found = pulls(
                server,
                options.keys,
                seconds=options.seconds,
                connections=options.connections,
            )
    for one in found:
        print(one)
    good = any(one.good for one in found)
    print(
        f"{'met' if good else 'MISSED'}: {GOAL_PER_S:,} queries/s, p99 under {GOAL_P99_MS:.0f} ms"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Compare random trees of decimal arithmetic with exact ones, and print those that differ."""

from __future__ import annotations

import argparse
import sys
import time

from tests.decimals.check import mismatches


def main() -> int:
    """Run the command; 1 when anything differs."""
    parser = argparse.ArgumentParser(prog="decimals", description=__doc__)
    parser.add_argument("--trees", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begun, different = time.process_time(), 0
    for mismatch in mismatches(options.seed, options.trees):
        different += 1
        print(f"{mismatch.text}\n  expected {mismatch.expected}\n  found    {mismatch.found}")
    seconds = time.process_time() - begun
    print(f"{options.trees} trees, {different} differ, {seconds:.0f} CPU seconds")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

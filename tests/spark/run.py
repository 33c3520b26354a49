"""`make spark`: everything that needs Spark. Skipped loudly where there is none, unless
MILLSTREAM_REQUIRE_SPARK is set."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.spark.java import missing


def main() -> int:
    """Run the command; 1 when any part fails."""
    parser = argparse.ArgumentParser(prog="spark", description=__doc__)
    parser.add_argument("--cases", required=True, help="folder of conformance cases")
    parser.add_argument("--share", default="1", help="of the cases, 0 to 1")
    parser.add_argument("--queries", default="200", help="random queries")
    options = parser.parse_args()
    why = missing()
    if why:
        print(f"{'=' * 100}\n{why}\n{'=' * 100}", file=sys.stderr)
        return 0
    cases = ["--cases", options.cases, "--share", options.share]
    if not Path(options.cases).is_dir():
        print(f"SKIPPED: there are no conformance cases in {options.cases}", file=sys.stderr)
        cases = []
    steps = (
        ["pytest", "-q", "tests/spark", "tests/unit/history"],
        ["tests.spark.parity", "--backend", "spark", "--queries", options.queries, *cases],
        ["tests.spark.cluster"],
    )
    failed = 0
    for step in steps:
        print(" ".join(step), flush=True)
        failed += subprocess.run([sys.executable, "-m", *step], check=False).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

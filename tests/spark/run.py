"""`make spark`: everything that needs Spark. Skipped loudly where there is none, unless
MILLSTREAM_REQUIRE_SPARK is set."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.kafka.run import cluster
from tests.spark.java import missing

WITH_SPARK = ("tests/spark", "tests/unit/history/test_session.py")
"""The tests that are skipped without Spark; all others are part of `make test`."""
ON_KAFKA = ("tests/spark/test_spark_on_kafka.py", "tests/kafka/test_history_on_kafka.py")


def steps(options: argparse.Namespace) -> Iterator[list[str]]:
    """What is run, in this order."""
    parity = ["tests.spark.parity", "--backend", "spark", "--queries", options.queries]
    yield ["pytest", "-q", *WITH_SPARK]
    if options.small:
        yield parity
        return
    if Path(options.cases).is_dir():
        yield [*parity, "--cases", options.cases, "--share", options.share]
    else:
        print(f"SKIPPED: there are no conformance cases in {options.cases}", file=sys.stderr)
        yield parity
    yield ["tests.spark.cluster"]
    yield ["tests.spark.pipeline_cluster"]


def on_kafka() -> bool:
    """Whether what reads Kafka in Spark's workers does, on a broker that is started for it."""
    with cluster() as (servers, environment):
        command = [sys.executable, "-m", "pytest", "-q", *ON_KAFKA]
        environment |= {"MILLSTREAM_KAFKA": servers}
        print(" ".join(command[2:]), flush=True)
        return subprocess.run(command, env=environment, check=False).returncode == 0


def main() -> int:
    """Run the command; 1 when any part fails."""
    parser = argparse.ArgumentParser(prog="spark", description=__doc__)
    parser.add_argument("--cases", default="", help="folder of conformance cases")
    parser.add_argument("--share", default="1", help="of the cases, 0 to 1")
    parser.add_argument("--queries", default="200", help="random queries")
    parser.add_argument("--small", action="store_true", help="no cases, cluster, Kafka")
    options = parser.parse_args()
    why = missing()
    if why:
        print(f"{'=' * 100}\n{why}\n{'=' * 100}", file=sys.stderr)
        return 0
    failed = 0
    for step in steps(options):
        print(" ".join(step), flush=True)
        failed += subprocess.run([sys.executable, "-m", *step], check=False).returncode != 0
    if not options.small:
        failed += not on_kafka()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

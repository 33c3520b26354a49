"""What small tests with `TopologyTestDriver` cost: each creates a driver with a stream and a query,
pipes 3 records and reads 3.

python -m tests.bench.testing [--tests 1000]
"""

from __future__ import annotations

import argparse
import sys
import time

from millstream.testing import TopologyTestDriver

_STREAM = """
CREATE STREAM orders (customer STRING KEY, amount DOUBLE)
  WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
"""
_QUERIES = (
    "CREATE TABLE o AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;",
    "CREATE STREAM o AS SELECT customer, amount * 2 AS twice FROM orders WHERE amount > 0;",
)
_STEPS = ("create", "pipe", "read", "close")


def _test(query: str, cpu: dict[str, float]) -> None:
    begin = time.process_time()

    def done(step: str) -> None:
        nonlocal begin
        now = time.process_time()
        cpu[step] += now - begin
        begin = now

    driver = TopologyTestDriver(_STREAM + query)
    done("create")
    for amount in (1, 2, 3):
        driver.pipe("orders", {"amount": amount}, key="ann")
    done("pipe")
    assert len(driver.read("o")) == 3
    done("read")
    driver.close()
    done("close")


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="tests.bench.testing", description=__doc__)
    parser.add_argument("--tests", type=int, default=1000)
    count = parser.parse_args(arguments).tests
    cpu = dict.fromkeys(_STEPS, 0.0)
    _test(_QUERIES[0], dict(cpu))
    started = time.monotonic()
    for number in range(count):
        _test(_QUERIES[number % len(_QUERIES)], cpu)
    seconds = time.monotonic() - started
    parts = ", ".join(f"{step} {1000 * spent / count:.1f}" for step, spent in cpu.items())
    print(f"{count} tests: {sum(cpu.values()):.1f} CPU s, {seconds:.1f} s; CPU ms each: {parts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Milliseconds from INSERT INTO … VALUES to the row a push query shows, on an idle engine.

At least once, a database file, the engine in its own thread: the client inserts a row, waits until
the push query delivers it, rests, and inserts the next.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

STATEMENTS = "CREATE STREAM s (id BIGINT KEY, name STRING, amount DOUBLE) \
WITH (KAFKA_TOPIC='s', PARTITIONS=4, VALUE_FORMAT='JSON');"
INSERTS = 200
REST_SECONDS = 0.01


def latencies(path: Path, inserts: int) -> tuple[list[float], list[float]]:
    """Of each insert in ms: until the statement returned, and until its row was there."""
    import millstream

    returned, seen = [], []
    with millstream.connect(str(path)) as database:
        database.execute(STATEMENTS)
        stream = database.execute("SELECT * FROM s EMIT CHANGES;")
        assert isinstance(stream, millstream.Stream)
        rows = iter(stream)
        for number in range(inserts + 1):
            started = time.perf_counter()
            database.execute(
                f"INSERT INTO s (id, name, amount) VALUES ({number}, 'n{number}', {number}.5);"
            )
            inserted = time.perf_counter()
            row = next(rows)
            assert number in row, row
            returned.append((inserted - started) * 1000)
            seen.append((time.perf_counter() - started) * 1000)
            time.sleep(REST_SECONDS)
        stream.close()
    # The first one also starts the query.
    return returned[1:], seen[1:]


def summary(values: list[float]) -> str:
    """Median and the tail."""
    cuts = statistics.quantiles(values, n=100)
    return f"median {statistics.median(values):6.2f}   p90 {cuts[89]:6.2f}   p99 {cuts[98]:6.2f}"


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="latency", description=__doc__)
    parser.add_argument("--inserts", type=int, default=INSERTS)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="millstream-latency-") as folder:
        returned, seen = latencies(Path(folder) / "latency.db", options.inserts)
    print(f"INSERT returns, ms:       {summary(returned)}")
    print(f"row in push query, ms:    {summary(seen)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

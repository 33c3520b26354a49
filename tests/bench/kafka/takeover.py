"""Seconds from the SIGKILL of an instance until all rows of a table answer again.

    python -m tests.bench.kafka.takeover [--kills 10] [--rows 20000]

Two instances share a table, each with a standby of the other's tasks. The other one is killed and
started again; queries go to this one, first with standby reads allowed, then without: that takes
the session timeout, in which the brokers wait for the dead one, and what comes after it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import millstream
from millstream.cluster.joining import hosted_partitions
from tests.kafka.neighbour import SHARING, neighbour
from tests.kafka.run import cluster
from tests.kafka.test_standbys import PARTITIONS, PROPERTIES, READS
from tests.patience import until

SERVICE = "takeover"


def prepared(db: millstream.Database, rows: int) -> str:
    """The table and its input; the name of its query."""
    db.execute(
        f"CREATE STREAM numbers (k STRING KEY, n INT) WITH (kafka_topic='numbers', "
        f"partitions={PARTITIONS}, value_format='JSON');"
        "CREATE TABLE sums WITH (kafka_topic='sums') AS "
        "SELECT k, COUNT(*) AS c FROM numbers GROUP BY k;"
    )
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
        file = Path(folder, "numbers.csv")
        lines = "".join(f"k{number},{number}\n" for number in range(rows))
        file.write_text("K,N\n" + lines, encoding="utf-8")
        db.execute(f"COPY numbers FROM '{file}';")
    (query,) = db.engine.catalog.queries
    return str(query)


def rounds(db: millstream.Database, servers: str, kills: int, rows: int) -> list[list[float]]:
    """Of each kill, the seconds with standbys and without."""
    query, found = prepared(db, rows), []

    def answers() -> bool:
        try:
            return len(db.execute("SELECT k FROM sums;").fetchall()) == rows
        except millstream.UnavailableError:
            return False

    def followed() -> bool:
        held = hosted_partitions(db.engine.cluster, query)
        return len(held.active) == PARTITIONS // 2 and list(held.standby.values()) == [0, 0]

    for _ in range(kills):
        with neighbour(servers, SERVICE):
            until(answers)
            until(followed)
        started = time.monotonic()
        times = []
        for allowed in ("true", "false"):
            db.session.set(READS, allowed)
            until(answers)
            times.append(time.monotonic() - started)
        found.append(times)
    return found


def main() -> int:
    """Print the table; 1 when a takeover took longer than the session timeout and 2 s."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rows", type=int, default=20_000)
    options = parser.parse_args()
    with (
        cluster() as (servers, _),
        millstream.connect(
            kafka=servers, service_id=SERVICE, sharing=SHARING, properties=PROPERTIES
        ) as db,
    ):
        found = rounds(db, servers, options.kills, options.rows)
    session = SHARING.session_timeout_ms / 1000
    print(f"{options.kills} kills, {options.rows} rows, a session timeout of {session:.0f} s")
    print("| seconds until all rows answer | least | median | most |", "|--|--:|--:|--:|", sep="\n")
    for name, times in zip(("of standbys", "of owners"), zip(*found, strict=True), strict=True):
        ordered = sorted(times)
        middle = ordered[len(ordered) // 2]
        print(f"| {name} | {ordered[0]:.2f} | {middle:.2f} | {ordered[-1]:.2f} |")
    return 0 if max(owners for _, owners in found) <= session + 2 else 1


if __name__ == "__main__":
    sys.exit(main())

"""Who takes over the tasks of a killed instance, and how soon.

    python -m tests.bench.kafka.takeover [--kills 10] [--rows 20000]

Three instances share a table, and each task has one standby. One of them is killed and started
again. Its tasks are to go to the instances that have their standbys. It is detected when the
brokers have given its seats to others, after the session timeout. From then on, the seconds count
until each of its tasks has written its first row.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import millstream
from millstream.cluster.joining import hosted_partitions
from millstream.cluster.metadata import HostedPartitions
from millstream.log.kafka.log import KafkaLog
from tests.kafka.neighbour import SHARING, neighbour
from tests.kafka.run import cluster
from tests.kafka.test_standbys import PROPERTIES
from tests.patience import until

SERVICE = "takeover"
PARTITIONS = 12
SHARE = PARTITIONS // 3
KEYS = 200
"""Of the rows that come after the kill; some for each task."""
LIMIT_S = 1.0


@dataclass(frozen=True)
class Takeover:
    """One task. `by_holder`: whether the instance with its standby has taken it. `lag`: of that
    standby when the other was killed, in records. The seconds from the kill until it was detected,
    and from then until the task's first row."""

    by_holder: bool
    lag: int
    detected: float
    row: float


class Survivors:
    """The two instances in this process."""

    def __init__(self, databases: Sequence[millstream.Database]) -> None:
        self.databases = databases
        (self.query,) = databases[0].engine.catalog.queries

    def hosted(self) -> list[HostedPartitions]:
        """What each has of the table."""
        return [hosted_partitions(db.engine.cluster, self.query) for db in self.databases]

    def standbys_of_others(self) -> list[tuple[int, int, int]]:
        """The standbys of tasks that none of them has: partition, who has it, and its lag."""
        found = self.hosted()
        own = found[0].active | found[1].active
        return [
            (partition, number, lag)
            for number, hosted in enumerate(found)
            for partition, lag in hosted.standby.items()
            if partition not in own
        ]

    def ready(self) -> bool:
        """Whether all have their shares, and each task of the third one has its one standby."""
        found = self.standbys_of_others()
        followed = {partition for partition, _, _ in found}
        shared = all(len(one.active) == SHARE for one in self.hosted())
        return shared and len(followed) == len(found) == SHARE and self._complete(found)

    def _complete(self, standbys: Sequence[tuple[int, int, int]]) -> bool:
        restoring = self.databases[0].engine.cluster.registry.restoring
        assert restoring is not None
        changelog = restoring._restoration._queries[self.query].specs[0].changelog
        ends = self.ends(str(changelog), [partition for partition, _, _ in standbys])
        hosted = self.hosted()
        return all(
            lag == 0 and hosted[number].positions[partition] >= ends[partition]
            for partition, number, lag in standbys
        )

    def answer(self, count: int) -> bool:
        """Whether so many rows are counted."""
        try:
            (row,) = self.databases[0].execute("SELECT SUM(c) AS c FROM sums;").fetchall()
        except millstream.UnavailableError:
            return False
        return row == (count,)

    def members(self) -> int:
        """How many members the one of them sees that sees fewest."""
        logs = [db.engine.log for db in self.databases]
        members = [log._instance for log in logs if isinstance(log, KafkaLog)]
        return min(len(one._tasks.owners.members) for one in members if one is not None)

    def ends(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        """Where partitions of a topic end."""
        log, asked = self.databases[0].engine.log, [(topic, p) for p in sorted(partitions)]
        while len(found := log.end_offsets(asked)) < len(asked):
            """A response lacks partitions that were unavailable."""
        return {partition: end for (_, partition), end in found.items()}


def prepare(db: millstream.Database, rows: int) -> None:
    """The table and its input."""
    db.execute(
        f"CREATE STREAM numbers (k STRING KEY, n INT) WITH (kafka_topic='numbers', "
        f"partitions={PARTITIONS}, value_format='JSON');"
        "CREATE TABLE sums WITH (kafka_topic='sums') AS "
        "SELECT k, COUNT(*) AS c FROM numbers GROUP BY k;"
    )
    add(db, rows)


def add(db: millstream.Database, rows: int) -> None:
    """A row for each of the first keys."""
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
        file = Path(folder, "numbers.csv")
        lines = "".join(f"k{number},{number}\n" for number in range(rows))
        file.write_text("K,N\n" + lines, encoding="utf-8")
        db.execute(f"COPY numbers FROM '{file}';")


def after_kill(survivors: Survivors, killed: float) -> list[Takeover]:
    """What happens to the tasks of the killed instance."""
    copies = survivors.standbys_of_others()
    partitions = {partition for partition, _, _ in copies}
    before = survivors.ends("sums", partitions)
    add(survivors.databases[0], KEYS)
    until(lambda: survivors.members() == 2)
    detected = time.monotonic()
    rows: dict[int, float] = {}
    taken: dict[int, int] = {}
    """Who has had each task first: later, tasks may move to make the two equal."""

    def written() -> bool:
        for number, hosted in enumerate(survivors.hosted()):
            for partition in hosted.active & partitions:
                taken.setdefault(partition, number)
        for partition, end in survivors.ends("sums", partitions).items():
            if end > before[partition]:
                rows.setdefault(partition, time.monotonic() - detected)
        return rows.keys() == taken.keys() == partitions

    until(written)
    return [
        Takeover(taken[partition] == holder, lag, detected - killed, rows[partition])
        for partition, holder, lag in copies
    ]


def rounds(survivors: Survivors, servers: str, kills: int, rows: int) -> list[Takeover]:
    """All takeovers."""
    found: list[Takeover] = []
    for number in range(kills):
        with neighbour(servers, SERVICE):
            until(survivors.ready)
            # What former owners of its tasks still have on their disks is old then.
            add(survivors.databases[0], KEYS)
            counted = rows + (2 * number + 1) * KEYS
            until(lambda counted=counted: survivors.answer(counted))  # type: ignore[misc]
            until(survivors.ready)
            killed = time.monotonic()
        found += after_kill(survivors, killed)
    return found


def main() -> int:
    """Print the table; 1 when another instance than the standby's has taken over a task, or one
    needed more than a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rows", type=int, default=20_000)
    options = parser.parse_args()
    with cluster() as (servers, _), ExitStack() as opened:
        databases = [
            opened.enter_context(
                millstream.connect(
                    kafka=servers, service_id=SERVICE, sharing=SHARING, properties=PROPERTIES
                )
            )
            for _ in range(2)
        ]
        prepare(databases[0], options.rows)
        until(lambda: bool(databases[1].engine.catalog.queries))
        found = rounds(Survivors(databases), servers, options.kills, options.rows)
    return report(options.kills, options.rows, found)


def report(kills: int, rows: int, found: Sequence[Takeover]) -> int:
    session = SHARING.session_timeout_ms / 1000
    by_holder = sum(one.by_holder for one in found)
    print(f"{kills} kills, {rows} rows, a session timeout of {session:.0f} s")
    print(f"{by_holder} of {len(found)} tasks were taken over by the instance with their standby,")
    print(f"which lacked {max(one.lag for one in found)} records at most")
    print("| seconds | least | median | most |", "|---|--:|--:|--:|", sep="\n")
    for name, times in (
        ("from the kill until it is detected", [one.detected for one in found]),
        ("from then until the first row of a task", [one.row for one in found]),
    ):
        least, *_, most = ordered = sorted(times)
        print(f"| {name} | {least:.2f} | {ordered[len(ordered) // 2]:.2f} | {most:.2f} |")
    return 0 if by_holder == len(found) and max(one.row for one in found) <= LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())

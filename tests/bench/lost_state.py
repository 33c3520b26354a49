"""How long a table takes to be back after its state was lost, from a checkpoint and by replay.

    python -m tests.bench.lost_state [--keys 10000000] [--kafka SERVERS] [--threads 2]

A stream has one record of each key, and a twentieth of the keys once more after the checkpoint of
all. On Kafka, another instance opens the service with an empty state, as one that is given the
tasks. The time is from opening until a record that is inserted then has been counted.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import millstream
from millstream.model.settings import EngineSettings
from tests.patience import until

BATCH = 500_000
NEVER_MS = 86_400_000


def cpu_seconds() -> float:
    """The CPU time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timed(what: str, call: Callable[[], Any]) -> None:
    """Print how long a call takes."""
    began, cpu = time.perf_counter(), cpu_seconds()
    call()
    took, cpu = time.perf_counter() - began, cpu_seconds() - cpu
    sys.stdout.write(f"{what:<44}{took:8.2f} s {cpu:8.2f} CPU s\n")
    sys.stdout.flush()


class Service:
    """A table of counts by key, in a file or on Kafka."""

    def __init__(self, folder: Path, kafka: str | None, threads: int) -> None:
        self.folder, self.kafka, self.threads = folder, kafka, threads
        self.id = f"lost-{uuid.uuid4().hex[:8]}"
        self.opened = 0

    def open(self, *, checkpoints: bool) -> millstream.Database:
        """Another instance, with an empty state."""
        place = str(self.folder / "place") if checkpoints else ""
        settings = EngineSettings(
            threads=self.threads,
            memory_limit="4GB",
            checkpoints_url=place,
            checkpoint_interval_ms=NEVER_MS,
            linger_ms=0,
        )
        properties = {"auto.offset.reset": "earliest"}
        self.opened += 1
        if self.kafka is not None:
            return millstream.connect(
                self.folder / f"state{self.opened}",
                kafka=self.kafka,
                service_id=self.id,
                settings=settings,
                properties=properties,
            )
        for path in self.folder.glob("shop.db.state*"):
            path.unlink()
        return millstream.connect(self.folder / "shop.db", settings=settings, properties=properties)


def count(db: millstream.Database, key: str) -> int:
    """The count of a key; 0 where there is none yet."""
    try:
        rows = list(db.execute(f"SELECT c FROM t WHERE k = '{key}';"))
    except millstream.UnavailableError:
        return 0
    return int(rows[0][0]) if rows else 0


def insert(db: millstream.Database, keys: range) -> None:
    for first in range(keys.start, keys.stop, BATCH):
        some = range(first, min(keys.stop, first + BATCH))
        names = [f"user-{key}" for key in some]
        db.insert("s", pa.table({"K": names, "N": list(some)}))


def fill(service: Service, keys: int) -> None:
    """Make the table, and its checkpoints."""
    with service.open(checkpoints=True) as db:
        db.execute(
            f"CREATE STREAM s (k STRING KEY, n BIGINT) WITH (KAFKA_TOPIC='{service.id}', "
            "PARTITIONS=2, VALUE_FORMAT='JSON');"
            "CREATE TABLE t AS SELECT k, COUNT(*) AS c, SUM(n) AS n FROM s GROUP BY k EMIT CHANGES;"
        )
        insert(db, range(keys))
        db.engine.drain()
        assert db.engine.restoring is not None and db.engine.restoring.checkpoints is not None
        checkpoints = db.engine.restoring.checkpoints
        timed("a checkpoint of all", checkpoints.write)
        insert(db, range(keys // 20))
        db.engine.drain()
        timed(f"a checkpoint of {keys // 20} changes", checkpoints.write)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--kafka")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder), given.kafka, given.threads)
        fill(service, given.keys)
        place = Path(folder) / "place"
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        sys.stdout.write(f"{size >> 20} MB at the place\n")
        for checkpoints in (True, False):
            extra = given.keys // 20 + (1 if checkpoints else 2)

            def back(checkpoints: bool = checkpoints, extra: int = extra) -> None:
                with service.open(checkpoints=checkpoints) as db:
                    insert(db, range(extra, extra + 1))
                    until(lambda: count(db, f"user-{extra}") == 2)

            timed("from checkpoints" if checkpoints else "by replay", back)


if __name__ == "__main__":
    main()

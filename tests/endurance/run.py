"""A database that works for a simulated year: does it stay as large, and as fast, as it was?

    python -m tests.endurance.run [--minutes 15] [--folder F] [--days 365] [--seed S]

Each half of a simulated day, records come to three streams and to a table that is compacted;
twenty queries read them, and all streams have a retention of a day. The clock is simulated,
everything else is as always. 24 times the database is closed and opened again, and measured: its
files beside what is live in them, the time of opening, memory, and CPU per record. Counts by key
are compared with a model at each of these times. Exit status 1 where an answer is wrong, where
the files have more than 1.5 times the live bytes and 256 MB, or where the second half of the year
is worse than the first.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.database import Database
from millstream.service.execution import open_engine

DAY_MS = 86_400_000
STEP_MS = DAY_MS // 2
BEGIN_MS = 1_700_000_000_000 // DAY_MS * DAY_MS
STREAMS = ("orders", "clicks", "bids")
STRETCHES = 24
"""How often the database is opened again and measured."""
SPARE_BYTES = 256 << 20
WORSE = 1.25
"""The most by which the median of the second half may exceed that of the first."""

_STREAM = """
CREATE STREAM {s} (k STRING KEY, n BIGINT, price DOUBLE, t BIGINT) WITH (KAFKA_TOPIC='{s}',
  PARTITIONS=2, VALUE_FORMAT='JSON', TIMESTAMP='t');
CREATE STREAM {s}_dear AS SELECT * FROM {s} WHERE price > 90 EMIT CHANGES;
CREATE TABLE {s}_hours AS SELECT k, COUNT(*) AS c, SUM(price) AS p FROM {s}
  WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 1 DAY, GRACE PERIOD 1 HOUR) GROUP BY k EMIT CHANGES;
CREATE TABLE {s}_visits AS SELECT k, COUNT(*) AS c FROM {s}
  WINDOW SESSION (10 MINUTES, RETENTION 1 DAY, GRACE PERIOD 1 HOUR) GROUP BY k EMIT CHANGES;
CREATE TABLE {s}_counts AS SELECT k, COUNT(*) AS c, MAX(price) AS p FROM {s} GROUP BY k
  EMIT CHANGES;
CREATE STREAM {s}_named AS SELECT {s}.k AS k, n, name FROM {s} JOIN people ON {s}.k = people.k
  EMIT CHANGES;
CREATE TABLE {s}_tens AS SELECT n % 10 AS m, COUNT(*) AS c FROM {s} GROUP BY n % 10 EMIT CHANGES;
"""
_PEOPLE = """
CREATE TABLE people (k STRING PRIMARY KEY, name STRING, v BIGINT) WITH (KAFKA_TOPIC='people',
  PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE people_named AS SELECT * FROM people EMIT CHANGES;
CREATE TABLE people_odd AS SELECT v % 100 AS m, COUNT(*) AS c FROM people GROUP BY v % 100
  EMIT CHANGES;
"""
QUERIES = 20


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = BEGIN_MS

    def __call__(self) -> int:
        return self.now


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured at a time: bytes of the files and of what is live in them, seconds of
    opening, bytes of memory, microseconds of CPU for a record, records so far."""

    day: int
    files: int
    live: int
    opening: float
    memory: int
    cpu_us: float
    records: int


class Year:
    """A database, its simulated clock, and a model of some of its answers."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.path = folder / "year.db"
        self.clock = Clock()
        self.rnd = random.Random(seed)
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in STREAMS}
        self.people: dict[str, int] = {}
        self.records = 0
        self.opening = 0.0
        self.db = self._opened()
        self.db.execute("SET 'auto.offset.reset' = 'earliest';" + _PEOPLE)
        for name in STREAMS:
            self.db.execute(_STREAM.format(s=name))
        assert len(self.db.engine.catalog.queries) == QUERIES

    def _opened(self) -> Database:
        began = time.perf_counter()
        kept = {"retention.ms": str(DAY_MS)}
        settings = EngineSettings(linger_ms=0, topic_settings=kept)
        engine = open_engine(str(self.path), settings, self.clock)
        self.opening = time.perf_counter() - began
        return Database(engine, Session())

    def work(self, records: int, keys: int) -> None:
        """Half a day passes, in which records come."""
        self.clock.now += STEP_MS
        for name in STREAMS:
            drawn = [f"k{int(keys * self.rnd.random() ** 2)}" for _ in range(records)]
            self.counts[name].update(drawn)
            self.db.insert(
                name,
                pa.table(
                    {
                        "K": drawn,
                        "N": [self.rnd.randrange(1 << 30) for _ in drawn],
                        "PRICE": [round(100 * self.rnd.random(), 2) for _ in drawn],
                        "T": sorted(self.clock.now - self.rnd.randrange(STEP_MS) for _ in drawn),
                    }
                ),
            )
        changed = [f"k{self.rnd.randrange(keys)}" for _ in range(records)]
        values = [self.rnd.randrange(1 << 30) for _ in changed]
        self.people.update(zip(changed, values, strict=True))
        names = [f"name of {key} {value}" for key, value in zip(changed, values, strict=True)]
        self.db.insert("people", pa.table({"K": changed, "NAME": names, "V": values}))
        self.records += records * (len(STREAMS) + 1)
        self.db.engine.drain()
        self.db.engine.log.maintain()

    def check(self) -> list[str]:
        """What is wrong with the answers."""
        wrong = []
        for name in STREAMS:
            found = dict(map(tuple, self.db.execute(f"SELECT k, c FROM {name}_counts;")))
            if found != self.counts[name]:
                wrong.append(
                    f"{name}_counts has {sum(found.values())} records in {len(found)} keys"
                )
        people = dict(map(tuple, self.db.execute("SELECT k, v FROM people_named;")))
        if people != self.people:
            wrong.append(f"people_named has {len(people)} rows of {len(self.people)}")
        return wrong

    def sample(self, cpu_us: float) -> Sample:
        """Open it again, and measure it."""
        self.db.close()
        self.db = self._opened()
        log = self.db.engine.log
        usage = log.usage([topic.name for topic in log.topics()])
        live = sum(each.bytes or 0 for each in usage.values())
        files = sum(each.stat().st_size for each in self.path.parent.glob(f"{self.path.name}*"))
        day = (self.clock.now - BEGIN_MS) // DAY_MS
        memory = _resident()
        return Sample(day, files, live, self.opening, memory, cpu_us, self.records)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def live_through(
    folder: Path, days: int, seconds: float, records: int, keys: int, seed: int
) -> tuple[list[Sample], list[str]]:
    """Work for so many days or seconds, whichever ends first: what was measured, and what was
    wrong."""
    year, samples = Year(folder, seed), list[Sample]()
    deadline = time.monotonic() + seconds
    for stretch in range(STRETCHES):
        cpu, before = _cpu(), year.records
        for _ in range(max(1, days * 2 // STRETCHES)):
            year.work(records, keys)
        wrong = year.check()
        cpu_us = 1e6 * (_cpu() - cpu) / (year.records - before)
        samples.append(year.sample(cpu_us))
        _show(samples[-1])
        if wrong := [*wrong, *year.check()]:
            return samples, wrong
        if time.monotonic() > deadline and stretch >= STRETCHES // 2:
            break
    year.db.close()
    return samples, []


def judge(samples: Sequence[Sample]) -> list[str]:
    """What is not as it should be. The first quarter is left out: until then, the log fills."""
    settled = samples[len(samples) // 4 :]
    half = len(settled) // 2
    wrong = [
        f"day {each.day}: the files have {each.files >> 20} MB, {each.live >> 20} MB are live"
        for each in samples
        if each.files > 1.5 * each.live + SPARE_BYTES
    ]
    for name in ("files", "opening", "memory", "cpu_us"):
        first, second = (
            sorted(getattr(each, name) for each in part)[len(part) // 2]
            for part in (settled[:half], settled[half:])
        )
        if second > WORSE * first:
            wrong.append(f"{name}: {first:.3g} in the first half, {second:.3g} in the second")
    return wrong


def _show(each: Sample) -> None:
    sys.stdout.write(
        f"day {each.day:4}  {each.records:9,} records  files {each.files >> 20:5} MB"
        f"  live {each.live >> 20:5} MB  opening {each.opening:5.2f} s"
        f"  memory {each.memory >> 20:5} MB  {each.cpu_us:5.1f} us of CPU a record\n"
    )
    sys.stdout.flush()


def main() -> int:
    """Run the command; 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="endurance", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--records", type=int, default=2_000, help="half a day, for each stream")
    parser.add_argument("--keys", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        samples, wrong = live_through(
            given.folder or Path(temporary),
            given.days,
            given.minutes * 60,
            given.records,
            given.keys,
            given.seed,
        )
    wrong += judge(samples)
    for each in wrong:
        sys.stdout.write(f"FAILED: {each}\n")
    sys.stdout.write("all is well\n" if not wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

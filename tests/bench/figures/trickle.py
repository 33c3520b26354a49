"""A trickle: small batches at a steady rate through five queries, for minutes.

The rows are inserted as the server inserts those of `/inserts-stream`: a batch of JSON objects at a
time, durable when the call returns. Inserting is part of the figure.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import millstream
from millstream.statements.row_inserts import RowInserts, open_inserts
from tests.bench.figures.catalogue import Reading
from tests.bench.figures.setting import Setting
from tests.bench.figures.usage import cpu_seconds, resident_mb

BATCHES_A_SECOND = 4
ROWS = 100
KEYS = 1000
GROUPS = 50
SPAN_SECONDS = 60.0
WARM_SECONDS = 120.0
SOURCES = """
CREATE STREAM events (k STRING KEY, g BIGINT, v BIGINT)
  WITH (KAFKA_TOPIC='events', PARTITIONS=4, VALUE_FORMAT='JSON');
CREATE TABLE names (k STRING PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC='names', PARTITIONS=4, VALUE_FORMAT='JSON');
"""
QUERIES = """
CREATE TABLE counts AS SELECT k, COUNT(*) AS n FROM events GROUP BY k EMIT CHANGES;
CREATE TABLE windows AS SELECT k, COUNT(*) AS n FROM events
  WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY k EMIT CHANGES;
CREATE TABLE sessions AS SELECT k, COUNT(*) AS n FROM events
  WINDOW SESSION (5 SECONDS) GROUP BY k EMIT CHANGES;
CREATE STREAM named AS SELECT e.k AS k, v, name FROM events e
  JOIN names n ON e.k = n.k EMIT CHANGES;
CREATE TABLE grouped AS SELECT g, COUNT(*) AS n FROM events GROUP BY g EMIT CHANGES;
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """At `at` seconds: the CPU seconds and the resident memory so far."""

    at: float
    cpu: float
    mb: int


def trickle(setting: Setting) -> Iterator[Reading]:
    """CPU as a share of a core, of the first and the last minute too, and memory."""
    seconds = setting.scale.trickle
    with setting.connect() as database:
        database.execute(SOURCES)
        for key in range(20):
            database.execute(f"INSERT INTO names (k, name) VALUES ('k{key}', 'n{key}');")
        database.execute(QUERIES)
        database.wait()
        samples, late = _run(open_inserts("EVENTS", database.engine.inserts, database.session),
                             round(seconds * BATCHES_A_SECOND))  # fmt: skip
        database.wait()
        _check(database, round(seconds * BATCHES_A_SECOND) * ROWS)
    yield Reading("trickle", summary(samples, late))


def summary(samples: list[Sample], late: int) -> str:
    """The samples as text."""
    first, last = samples[0], samples[-1]
    span = min(SPAN_SECONDS, (last.at - first.at) / 2)
    begun = next(sample for sample in samples if sample.at >= first.at + span)
    ending = [sample for sample in samples if sample.at <= last.at - span][-1]
    warm = [f"{sample.mb} MB -> " for sample in samples if sample.at >= WARM_SECONDS][:1]
    return (
        f"{_percent(first, last):.1f} % ({last.cpu - first.cpu:.1f} CPU-s, {last.at - first.at:.0f}"
        f" s), first {span:.0f} s {_percent(first, begun):.1f} %,"
        f" last {span:.0f} s {_percent(ending, last):.1f} %;"
        f" {first.mb} MB -> {''.join(warm)}{last.mb} MB; {late} of {len(samples) - 1} batches late"
    )


def _percent(one: Sample, other: Sample) -> float:
    return 100 * (other.cpu - one.cpu) / (other.at - one.at)


def _run(inserts: RowInserts, batches: int) -> tuple[list[Sample], int]:
    """Insert at the rate; a sample a batch, and how many batches were begun late by the time
    between two."""
    chance, late, started = random.Random(1), 0, time.perf_counter()
    samples = [Sample(0.0, cpu_seconds(), resident_mb())]
    for number in range(batches):
        due = started + number / BATCHES_A_SECOND
        now = time.perf_counter()
        late += now > due + 1 / BATCHES_A_SECOND
        time.sleep(max(0.0, due - now))
        result = inserts.insert(_rows(chance))
        if result.count != ROWS:
            raise RuntimeError(f"only {result.count} of {ROWS} rows were inserted: {result.error}")
        # At the end of its time slot, so that the work for the batch is part of its sample.
        time.sleep(max(0.0, due + 1 / BATCHES_A_SECOND - time.perf_counter()))
        samples.append(Sample(time.perf_counter() - started, cpu_seconds(), resident_mb()))
    return samples, late


def _rows(chance: random.Random) -> list[bytes]:
    """Rows of keys chosen at random."""
    keys = [chance.randrange(KEYS) for _ in range(ROWS)]
    return [
        json.dumps({"k": f"k{key}", "g": key % GROUPS, "v": number}).encode()
        for number, key in enumerate(keys)
    ]


def _check(database: millstream.Database, rows: int) -> None:
    """Raise RuntimeError unless the counts add up to the rows that were inserted."""
    for table in ("counts", "windows", "sessions", "grouped"):
        found = database.execute(f"SELECT n FROM {table};").fetchall()  # type: ignore[union-attr]
        total = sum(row[0] for row in found)
        if total != rows:
            raise RuntimeError(f"{table} counts {total} rows of {rows}")

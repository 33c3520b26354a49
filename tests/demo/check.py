"""The answers of the demo against plain DuckDB over the same CSV files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb

import millstream

FLIGHTS = """
CREATE VIEW flights AS SELECT * EXCLUDE (dep_delay, year), CAST(dep_delay AS DOUBLE) AS dep_delay,
  epoch_ms(time_hour) AS ms
FROM '{FLIGHTS}' WHERE dep_time IS NOT NULL
"""
HOUR_MS = 3_600_000
GRACE_MS = 3 * 24 * HOUR_MS
CHECKS = (
    (
        "carriers",
        "SELECT airline, flights, mean_delay, worst_delay FROM carriers",
        "SELECT name, count(*), avg(dep_delay), max(dep_delay) FROM flights"
        " JOIN airlines USING (carrier) GROUP BY name",
    ),
    (
        "manufacturers",
        "SELECT manufacturer, flights, mean_delay FROM manufacturers",
        "SELECT manufacturer, count(*), avg(dep_delay) FROM flights JOIN planes USING (tailnum)"
        " GROUP BY manufacturer",
    ),
    (
        "departures per origin and hour",
        "SELECT origin, WINDOWSTART, departures, mean_delay FROM departures",
        f"SELECT origin, ms // {HOUR_MS} * {HOUR_MS}, count(*), avg(dep_delay) FROM flights"
        " GROUP BY ALL",
    ),
)
FINAL = f"""
SELECT origin, ms // {HOUR_MS} * {HOUR_MS} AS start, count(*) FROM flights GROUP BY ALL
"""


def differences(database: millstream.Database, files: dict[str, Path]) -> list[str]:
    """A line for each answer that differs; none when all are right."""
    with duckdb.connect() as plain:
        plain.execute(FLIGHTS.format(**files))
        for name in ("AIRLINES", "PLANES"):
            plain.execute(
                f"CREATE VIEW {name.lower()} AS FROM read_csv('{files[name]}', nullstr = 'NA')"
            )
        found = []
        for title, ours, theirs in CHECKS:
            mine = list(database.execute(ours + ";"))
            found += compare(title, mine, plain.execute(theirs).fetchall())
        found += final_windows(database, plain.execute(FINAL).fetchall())
    return found


def compare(title: str, ours: list[Any], theirs: list[Any]) -> list[str]:
    """Rows as sets; numbers equal to 12 digits (a mean is summed in another order)."""
    left, right = sorted(map(_key, ours)), sorted(map(_key, theirs))
    if len(left) != len(right):
        return [f"{title}: {len(left)} rows, expected {len(right)}"]
    wrong = [pair for pair in zip(left, right, strict=True) if not _same(*pair)]
    return [f"{title}: {len(wrong)} rows differ, e.g. {wrong[0]}"] if wrong else []


def final_windows(database: millstream.Database, windows: list[Any]) -> list[str]:
    """EMIT FINAL wrote each window at most once, with its final count, and every window whose
    grace was over for its origin."""
    source = database.engine.catalog.source("DEPARTURES_FINAL")
    written = _final_records(database, source.topic)
    if len({key for key, _ in written}) != len(written):
        return ["departures_final: a window was emitted twice"]
    expected = {(origin, start): count for origin, start, count in windows}
    wrong = [(key, count) for key, count in written if expected.get(key) != count]
    newest = {origin: 0 for origin, _ in expected}
    for origin, start in expected:
        newest[origin] = max(newest[origin], start)
    emitted = {key for key, _ in written}
    missing = [
        key
        for key in expected
        if key[1] + HOUR_MS + GRACE_MS <= newest[key[0]] and key not in emitted
    ]
    return [
        *([f"departures_final: {len(wrong)} wrong counts, e.g. {wrong[0]}"] if wrong else []),
        *([f"departures_final: {len(missing)} windows missing"] if missing else []),
    ]


def _final_records(database: millstream.Database, topic: str) -> list[tuple[tuple[str, int], int]]:
    import json

    found = []
    partitions = database.engine.log.topic(topic)
    for partition in range(partitions.partitions if partitions else 0):
        offset, end = 0, False
        while not end:
            fetched = database.engine.log.read(topic, partition, offset, 100_000)
            offset, end = fetched.next_offset, fetched.end
            for row in fetched.batch.to_pylist():
                key, start = row["key"][:-8].decode(), int.from_bytes(row["key"][-8:], "big")
                found.append(((key, start), json.loads(row["value"])["DEPARTURES"]))
    return found


def _key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(str(cell) if cell is None else cell for cell in row)


def _same(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-12) if isinstance(a, float) else a == b
        for a, b in zip(left, right, strict=True)
    )

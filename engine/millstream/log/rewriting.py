"""The SQL that compacts segments of an embedded log: it reads closed segments, which do not change,
and writes tables that no reader knows yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import duckdb

from millstream.log.stored import Segment, Stored
from millstream.log.tables import HEADERS_TYPE, creation
from millstream.model.batch import ARRIVAL

_GONE_AFTER = "gone_after"
"""The time in ms after which a tombstone leaves; NULL for all others."""
MORE_COLUMNS = f", {_GONE_AFTER} BIGINT"
"""What the table of a segment has that was written again."""
_FIND_NEWEST = """
CREATE OR REPLACE TEMP TABLE newest AS
SELECT part, max(off) AS off FROM ({records}) WHERE key IS NOT NULL GROUP BY part, key
"""


def find_newest(
    cursor: duckdb.DuckDBPyConnection, stored: Stored, segments: Sequence[Segment]
) -> None:
    """Note which record is the newest of each key in these segments, in a table of the cursor. One
    without a key is none."""
    records = " UNION ALL ".join(
        f"SELECT part, key, off FROM {stored.relation(segment)}" for segment in segments
    )
    cursor.execute(_FIND_NEWEST.format(records=records))


def forget_newest(cursor: duckdb.DuckDBPyConnection) -> None:
    """Drop what `find_newest` has noted."""
    cursor.execute("DROP TABLE IF EXISTS temp.newest")


def count_staying(
    cursor: duckdb.DuckDBPyConnection, stored: Stored, segments: Sequence[Segment], now: int
) -> int:
    """How many records of these segments stay at a time."""
    (row,) = cursor.execute(f"SELECT count(*) {_staying(stored, segments, now)}").fetchall()
    return int(row[0])


def rewrite(
    cursor: duckdb.DuckDBPyConnection, stored: Stored, old: Sequence[Segment], now: int
) -> Segment:
    """Write the records that stay of these segments into the table of a new one, ordered by
    partition and offset."""
    generation = max(segment.generation for segment in old) + 1
    headers = any(segment.headers for segment in old)
    new = replace(old[-1], first=old[0].first, headers=headers, generation=generation, cleaned=True)
    columns = ["part", "off", "ts", "key", "value"]
    columns += [ARRIVAL] * stored.topic.numbered + ["headers"] * headers
    horizon = f"CASE WHEN value IS NULL THEN coalesce({_GONE_AFTER}, {_horizon(stored, now)}) END"
    cursor.execute(f"DROP TABLE IF EXISTS {stored.relation(new)}")
    cursor.execute(creation(stored, new, MORE_COLUMNS))
    cursor.execute(
        f"INSERT INTO {stored.relation(new)} ({', '.join(columns)}, {_GONE_AFTER})"
        f" SELECT {', '.join(columns)}, {horizon} {_staying(stored, old, now)} ORDER BY part, off"
    )
    return new


def _horizon(stored: Stored, now: int) -> int:
    return now + stored.policy.tombstone_ms


def _staying(stored: Stored, segments: Sequence[Segment], now: int) -> str:
    """FROM and WHERE of the records that stay."""
    records = " UNION ALL ".join(_records(stored, segment) for segment in segments)
    starts = " ".join(f"WHEN {part} THEN {start}" for part, start in enumerate(stored.starts))
    return (
        f"FROM ({records}) SEMI JOIN temp.newest USING (part, off)"
        f" WHERE off >= CASE part {starts} END"
        f" AND (value IS NOT NULL OR {_GONE_AFTER} IS NULL OR {_GONE_AFTER} > {now})"
    )


def _records(stored: Stored, segment: Segment) -> str:
    headers = "headers" if segment.headers else f"NULL::{HEADERS_TYPE} AS headers"
    arrival = f" {ARRIVAL}," if stored.topic.numbered else ""
    gone = _GONE_AFTER if segment.generation else f"NULL::BIGINT AS {_GONE_AFTER}"
    return (
        f"SELECT part, off, ts, key, value,{arrival} {headers}, {gone}"
        f" FROM {stored.relation(segment)}"
    )

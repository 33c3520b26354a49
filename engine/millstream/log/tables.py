"""The SQL of an embedded log, as functions on a cursor; reads and compaction have theirs in
`table_reads` and `rewriting`.

Keys and values are stored uncompressed: compression takes two thirds of an append's cost, and older
ranges are meant to leave the file as Parquet. The compression of numbers is fixed, because trying
all methods on each column costs time too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb

from millstream.log.bound_rows import BoundRows
from millstream.log.log import Topic, TopicPartition
from millstream.log.policy import policy_of
from millstream.log.stored import LARGE_SEGMENT_RECORDS, Insertion, Segment, Stored
from millstream.model.batch import ARRIVAL
from millstream.model.errors import CorruptionError, UnavailableError

VERSION = 3
"""1: records have no arrival numbers. Its topics stay so. 2: segments are as they were written."""
_TYPICAL_RECORD_BYTES = 200
_RECORD_BYTES = 20
"""Of a record besides its key and value."""
_CREATE = """
CREATE SCHEMA log;
CREATE TABLE log.about (version INTEGER, next_topic INTEGER, openings BIGINT);
CREATE TABLE log.topics (
    id INTEGER, name VARCHAR, partitions INTEGER, replicas INTEGER, config MAP(VARCHAR, VARCHAR),
    numbered BOOLEAN);
CREATE TABLE log.segments (
    topic INTEGER, number INTEGER, first BIGINT[], headers BOOLEAN, generation INTEGER,
    cleaned BOOLEAN);
CREATE TABLE log.starts (topic INTEGER, part INTEGER, first BIGINT);
CREATE TABLE log.positions (grp VARCHAR, topic VARCHAR, part INTEGER, position BIGINT);
CREATE TABLE log.writers (identity VARCHAR, epoch BIGINT);
"""
_CREATE_RECORDS = """
CREATE TABLE {relation} (
    part INTEGER USING COMPRESSION rle,
    off BIGINT USING COMPRESSION bitpacking, ts BIGINT USING COMPRESSION bitpacking,
    key BLOB USING COMPRESSION uncompressed, value BLOB USING COMPRESSION uncompressed{further})
"""
_UPGRADES = {
    1: """
ALTER TABLE log.about ADD COLUMN openings BIGINT DEFAULT 0;
ALTER TABLE log.topics ADD COLUMN numbered BOOLEAN DEFAULT FALSE;
""",
    2: """
ALTER TABLE log.segments ADD COLUMN generation INTEGER DEFAULT 0;
ALTER TABLE log.segments ADD COLUMN cleaned BOOLEAN DEFAULT FALSE;
""",
}
"""What changes a file from each version to the next one."""
HEADERS_TYPE = "STRUCT(key VARCHAR, value BLOB)[]"
_FEW_ROWS = 4
"""Up to this many rows are passed as parameters, which costs less than reading an Arrow table."""


def prepare(cursor: duckdb.DuckDBPyConnection, path: str) -> None:
    """Create the log's own tables in a new file, or check that this version supports the file's."""
    found = cursor.execute(
        "SELECT 1 FROM duckdb_schemas() WHERE schema_name = 'log' "
        "AND database_name = current_database()"
    ).fetchall()
    if not found:
        cursor.begin()
        cursor.execute(_CREATE)
        cursor.execute("INSERT INTO log.about VALUES (?, 1, 0)", [VERSION])
        cursor.commit()
        cursor.execute("CHECKPOINT")
        return
    version = _version(cursor)
    if version in _UPGRADES:
        cursor.begin()
        for upgrade in range(version, VERSION):
            cursor.execute(_UPGRADES[upgrade])
        cursor.execute("UPDATE log.about SET version = ?", [VERSION])
        cursor.commit()
    elif version != VERSION:
        raise _other_version(path, version)


def _version(cursor: duckdb.DuckDBPyConnection) -> int:
    row = _first(cursor.execute("SELECT version FROM log.about"))
    return int(row[0]) if row is not None else 0


def _other_version(path: str, version: int) -> UnavailableError:
    return UnavailableError(
        f"The log '{path}' has format {version}; this version of Millstream reads "
        f"format {VERSION}.",
        hint="Open it with the version that wrote it.",
        code="E-VERSION",
    )


def check_version(cursor: duckdb.DuckDBPyConnection, path: str) -> None:
    """Raise UnavailableError (E-VERSION) unless a file has the format of this version."""
    version = _version(cursor)
    if version in _UPGRADES:
        raise UnavailableError(
            f"The log '{path}' has format {version}, an earlier one.",
            hint=f"Open it once with this version, which changes it to format {VERSION}.",
            code="E-VERSION",
        )
    if version != VERSION:
        raise _other_version(path, version)


def _first(cursor: duckdb.DuckDBPyConnection) -> tuple[Any, ...] | None:
    """The only row of a result; `fetchone` would leave the result open and the cursor blocked."""
    rows = cursor.fetchall()
    return rows[0] if rows else None


def load_openings(cursor: duckdb.DuckDBPyConnection) -> int:
    """How often the file was opened for writing."""
    row = _first(cursor.execute("SELECT openings FROM log.about"))
    return int(row[0]) if row else 0


def load_about(cursor: duckdb.DuckDBPyConnection) -> tuple[int, int]:
    """The id of the next topic, and how often the file was opened for writing."""
    ((next_topic, openings),) = cursor.execute(
        "SELECT next_topic, openings FROM log.about"
    ).fetchall()
    return int(next_topic), int(openings)


def store_about(cursor: duckdb.DuckDBPyConnection, next_topic: int, openings: int) -> None:
    """Write what `load_about` reads."""
    cursor.execute("UPDATE log.about SET next_topic = ?, openings = ?", [next_topic, openings])


def count_opening(cursor: duckdb.DuckDBPyConnection) -> None:
    """Count this opening as one with writes (inside the caller's transaction)."""
    cursor.execute("UPDATE log.about SET openings = openings + 1")


def load_topics(cursor: duckdb.DuckDBPyConnection) -> dict[str, Stored]:
    """All topics, with their bounds derived from the records."""
    return {stored.topic.name: _measure_last(cursor, stored) for stored in load_bounds(cursor)}


def load_bounds(cursor: duckdb.DuckDBPyConnection) -> list[Stored]:
    """All topics by name, without reading records: they end where their last segment begins."""
    segments: dict[int, list[Segment]] = {}
    for topic_id, number, first, has, generation, cleaned in cursor.execute(
        "SELECT topic, number, first, headers, generation, cleaned FROM log.segments"
        " ORDER BY topic, number"
    ).fetchall():
        segments.setdefault(topic_id, []).append(
            Segment(number, tuple(first), headers=has, generation=generation, cleaned=cleaned)
        )
    starts: dict[int, dict[int, int]] = {}
    for topic_id, part, start in cursor.execute(
        "SELECT topic, part, max(first) FROM log.starts GROUP BY ALL"
    ).fetchall():
        starts.setdefault(topic_id, {})[part] = start
    loaded = []
    topics = cursor.execute("SELECT * FROM log.topics ORDER BY name").fetchall()
    for topic_id, name, partitions, replicas, config, numbered in topics:
        own = starts.get(topic_id, {})
        stored = Stored(
            topic_id,
            Topic(name, partitions, replicas, dict(config), str(topic_id), numbered),
            tuple(segments[topic_id]),
            starts=tuple(own.get(partition, 0) for partition in range(partitions)),
            ends=segments[topic_id][-1].first,
            policy=policy_of(dict(config)),
        )
        loaded.append(stored)
    return loaded


def _measure_last(cursor: duckdb.DuckDBPyConnection, stored: Stored) -> Stored:
    last = stored.segments[-1]
    relation = stored.relation(last)
    rows = cursor.execute(
        f"SELECT part, max(off) + 1, count(*), min(ts) FROM {relation} GROUP BY part"
    ).fetchall()
    ends, records = list(last.first), 0
    for part, end, count, _ in rows:
        if end - last.first[part] != count:
            raise CorruptionError(
                f"Topic '{stored.topic.name}', partition {part}: {count} records where the "
                f"offsets {last.first[part]} to {end - 1} should be."
            )
        ends[part] = end
        records += count
    size = records * _TYPICAL_RECORD_BYTES
    if records <= LARGE_SEGMENT_RECORDS:
        row = _first(cursor.execute(f"SELECT sum(octet_length(value)) FROM {relation}"))
        size += int(row[0] or 0) if row else 0
    since = min((row[3] for row in rows), default=None)
    measured = replace(last, records=records, bytes=size, since=since)
    return replace(stored, segments=(*stored.segments[:-1], measured), ends=tuple(ends))


def load_positions(cursor: duckdb.DuckDBPyConnection) -> dict[str, dict[TopicPartition, int]]:
    """The committed positions of all groups."""
    groups: dict[str, dict[TopicPartition, int]] = {}
    rows = cursor.execute("SELECT grp, topic, part, position FROM log.positions").fetchall()
    for group, topic, part, position in rows:
        groups.setdefault(group, {})[topic, part] = position
    return groups


def load_epochs(cursor: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """The newest epoch of every writer identity."""
    return dict(
        cursor.execute("SELECT identity, max(epoch) FROM log.writers GROUP BY 1").fetchall()
    )


def insert_topic(cursor: duckdb.DuckDBPyConnection, topic: Topic) -> Stored:
    """Create a topic's tables (inside the caller's transaction)."""
    row = _first(
        cursor.execute("UPDATE log.about SET next_topic = next_topic + 1 RETURNING next_topic - 1")
    )
    assert row is not None
    zeros = (0,) * topic.partitions
    made = replace(topic, id=str(row[0]), replicas=max(1, topic.replicas), numbered=True)
    segments, policy = (Segment(0, zeros),), policy_of(topic.config)
    stored = Stored(int(row[0]), made, segments, zeros, zeros, policy)
    insert_known_topic(cursor, stored)
    insert_segment(cursor, stored, stored.segments[0])
    return stored


def insert_known_topic(cursor: duckdb.DuckDBPyConnection, stored: Stored) -> None:
    """Create a topic that has an id, without its tables (inside the caller's transaction)."""
    topic = stored.topic
    cursor.execute(
        "INSERT INTO log.topics VALUES (?, ?, ?, ?, map(?::VARCHAR[], ?::VARCHAR[]), ?)",
        [
            stored.id,
            topic.name,
            topic.partitions,
            topic.replicas,
            list(topic.config.keys()),
            list(topic.config.values()),
            topic.numbered,
        ],
    )


def update_topic(cursor: duckdb.DuckDBPyConnection, stored: Stored) -> None:
    """Write the settings of a topic (inside the caller's transaction)."""
    config = stored.topic.config
    cursor.execute(
        "UPDATE log.topics SET config = map(?::VARCHAR[], ?::VARCHAR[]) WHERE id = ?",
        [list(config.keys()), list(config.values()), stored.id],
    )


def insert_segment(
    cursor: duckdb.DuckDBPyConnection, stored: Stored, segment: Segment, more: str = ""
) -> None:
    """Create a segment with an empty table that has `more` columns (inside the caller's
    transaction)."""
    cursor.execute(creation(stored, segment, more))
    _insert_segment(cursor, stored, segment)


def creation(stored: Stored, segment: Segment, more: str = "") -> str:
    """The statement that creates the table of a segment, with `more` columns."""
    arrival = ", arrival BIGINT USING COMPRESSION bitpacking" if stored.topic.numbered else ""
    headers = f", headers {HEADERS_TYPE}" if segment.headers else ""
    return _CREATE_RECORDS.format(
        relation=stored.relation(segment), further=arrival + headers + more
    )


def _insert_segment(cursor: duckdb.DuckDBPyConnection, stored: Stored, segment: Segment) -> None:
    cursor.execute(
        "INSERT INTO log.segments VALUES (?, ?, ?, ?, ?, ?)",
        [
            stored.id,
            segment.number,
            list(segment.first),
            segment.headers,
            segment.generation,
            segment.cleaned,
        ],
    )


def drop_topic(cursor: duckdb.DuckDBPyConnection, stored: Stored) -> None:
    """Drop a topic's tables and every position on it (inside the caller's transaction)."""
    for segment in stored.segments:
        cursor.execute(f"DROP TABLE {stored.relation(segment)}")
    cursor.execute("DELETE FROM log.segments WHERE topic = ?", [stored.id])
    cursor.execute("DELETE FROM log.starts WHERE topic = ?", [stored.id])
    cursor.execute("DELETE FROM log.topics WHERE id = ?", [stored.id])
    cursor.execute("DELETE FROM log.positions WHERE topic = ?", [stored.topic.name])


def replace_segments(
    cursor: duckdb.DuckDBPyConnection, stored: Stored, old: Sequence[Segment], new: Segment
) -> None:
    """Note that one segment, whose table there is, takes the place of others, whose tables stay
    (inside the caller's transaction)."""
    numbers = ", ".join(str(segment.number) for segment in old)
    cursor.execute(
        f"DELETE FROM log.segments WHERE topic = ? AND number IN ({numbers})", [stored.id]
    )
    _insert_segment(cursor, stored, new)


def unknown_tables(cursor: duckdb.DuckDBPyConnection, topics: Iterable[Stored]) -> tuple[str, ...]:
    """Tables of records that belong to no segment: their transaction was not followed by the one
    that uses them, or that drops them."""
    known = {stored.relation(segment) for stored in topics for segment in stored.segments}
    found = cursor.execute(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'log'"
        " AND database_name = current_database() AND starts_with(table_name, 'records_')"
    ).fetchall()
    return tuple(sorted({f"log.{name}" for (name,) in found} - known))


def drop_segment(cursor: duckdb.DuckDBPyConnection, stored: Stored, segment: Segment) -> None:
    """Drop one segment (inside the caller's transaction)."""
    cursor.execute(f"DROP TABLE {stored.relation(segment)}")
    cursor.execute(
        "DELETE FROM log.segments WHERE topic = ? AND number = ?", [stored.id, segment.number]
    )


def insert_starts(cursor: duckdb.DuckDBPyConnection, starts: Mapping[tuple[int, int], int]) -> None:
    """Write the starts of partitions, by topic and partition (inside the caller's transaction)."""
    if starts:
        rows = ", ".join(f"({topic}, {part}, {first})" for (topic, part), first in starts.items())
        cursor.execute(f"INSERT INTO log.starts VALUES {rows}")


def replace_starts(
    cursor: duckdb.DuckDBPyConnection, starts: Mapping[tuple[int, int], int]
) -> None:
    """Write the starts of all partitions in place of those that are there."""
    cursor.execute("DELETE FROM log.starts")
    insert_starts(cursor, starts)


def count_starts(cursor: duckdb.DuckDBPyConnection) -> int:
    """How many rows tell starts; of one partition the last one counts."""
    row = _first(cursor.execute("SELECT count(*) FROM log.starts"))
    return int(row[0]) if row else 0


@dataclass(frozen=True, slots=True)
class Measured:
    """What a segment has of a partition: its oldest and newest time in ms, bytes and records."""

    oldest: int
    newest: int
    bytes: int
    records: int


def measure(
    cursor: duckdb.DuckDBPyConnection, stored: Stored, segment: Segment
) -> dict[int, Measured]:
    """What a segment has, by partition."""
    rows = cursor.execute(
        "SELECT part, min(ts), max(ts), sum(coalesce(octet_length(value), 0)"
        f" + coalesce(octet_length(key), 0) + {_RECORD_BYTES}), count(*)"
        f" FROM {stored.relation(segment)} GROUP BY part"
    ).fetchall()
    return {row[0]: Measured(*map(int, row[1:])) for row in rows}


def insert_records(
    cursor: duckdb.DuckDBPyConnection, bound: BoundRows, insertion: Insertion
) -> None:
    """Write the rows of one topic (inside the caller's transaction)."""
    after = insertion.after
    segment = after.segments[-1]
    if insertion.opened:
        insert_segment(cursor, after, segment)
    rows, relation = insertion.rows, after.relation(segment)
    further = [name for name in ("headers", ARRIVAL) if name in rows.column_names]
    columns = ["part", "off", "ts", "key", "value", *further]
    into = f"INSERT INTO {relation} ({', '.join(columns)})"
    if rows.num_rows <= _FEW_ROWS and "headers" not in further:
        values = [value for row in zip(*rows.to_pydict().values(), strict=True) for value in row]
        row = f"({', '.join('?' * len(columns))})"
        cursor.execute(f"{into} VALUES {', '.join([row] * rows.num_rows)}", values)
        return
    given = ["part", '"offset"', "timestamp", "key", "value", *further]
    with bound.named(rows) as name:
        cursor.execute(f"{into} SELECT {', '.join(given)} FROM {name}")


def move_positions(
    cursor: duckdb.DuckDBPyConnection,
    moves: Mapping[str, Mapping[TopicPartition, int]],
    known: Mapping[str, Mapping[TopicPartition, int]],
) -> None:
    """Set positions of groups (inside the caller's transaction). `known`: all stored ones."""
    moved: list[tuple[str, str, int, int]] = []
    added: list[tuple[str, str, int, int]] = []
    for group, positions in moves.items():
        stored = known.get(group, {})
        for (topic, partition), position in positions.items():
            if (topic, partition) not in stored:
                added.append((group, topic, partition, position))
            elif stored[topic, partition] != position:
                moved.append((group, topic, partition, position))
    if len({(group, topic) for group, topic, _, _ in moved}) == 1:
        _move_of_topic(cursor, moved)
    elif moved:
        cursor.execute(
            f"UPDATE log.positions p SET position = m.position FROM (VALUES {_places(moved)})"
            " m(grp, topic, part, position)"
            " WHERE p.grp = m.grp AND p.topic = m.topic AND p.part = m.part",
            _values(moved),
        )
    if added:
        cursor.execute(f"INSERT INTO log.positions VALUES {_places(added)}", _values(added))


def _move_of_topic(
    cursor: duckdb.DuckDBPyConnection, moved: Sequence[tuple[str, str, int, int]]
) -> None:
    """Move positions of one group and topic, which needs no join."""
    group, topic, _, _ = moved[0]
    cases = " ".join(f"WHEN {part} THEN {position}" for _, _, part, position in moved)
    parts = ", ".join(str(part) for _, _, part, _ in moved)
    cursor.execute(
        f"UPDATE log.positions SET position = CASE part {cases} END "
        f"WHERE grp = ? AND topic = ? AND part IN ({parts})",
        [group, topic],
    )


def _places(rows: Sequence[tuple[object, ...]]) -> str:
    return ", ".join(["(?, ?, ?, ?)"] * len(rows))


def _values(rows: Sequence[tuple[object, ...]]) -> list[object]:
    return [value for row in rows for value in row]

"""All that an embedded log holds as of one moment, while it goes on; and a file made of that."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from millstream.log import rewriting, tables
from millstream.log.bound_rows import BoundRows
from millstream.log.contents import Contents
from millstream.log.duckfile import open_file, opening_error, reading_error, writing_error
from millstream.log.log import TopicPartition
from millstream.log.logfile import LogFile
from millstream.log.stored import Segment, Stored

_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class LogContents:
    """What a log holds besides its records. `next_topic` is the id of the next topic that is
    created, `openings` how often the file was opened for writing, `epochs` those of writers."""

    next_topic: int
    openings: int
    topics: tuple[Stored, ...]
    positions: Mapping[str, Mapping[TopicPartition, int]]
    epochs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """A log as of one moment, readable within `taken`."""

    contents: LogContents
    cursor: duckdb.DuckDBPyConnection
    path: str

    def rows(self, stored: Stored, segment: Segment) -> Generator[pa.RecordBatch]:
        """The rows of a segment, in batches, as they are stored. Close it if it is not read to its
        end."""
        try:
            reader = self.cursor.sql(f"SELECT * FROM {stored.relation(segment)}").to_arrow_reader(
                _BATCH_ROWS
            )
            try:
                yield from reader
            finally:
                # An open result blocks the cursor.
                reader.close()
        except duckdb.Error as error:
            raise reading_error(self.path, stored.topic.name, error) from error


@contextmanager
def taken(
    file: LogFile,
    lock: AbstractContextManager[object],
    contents: Contents,
    epochs: Mapping[str, int],
) -> Iterator[LogSnapshot]:
    """A snapshot of an open log, which goes on meanwhile: a transaction of DuckDB reads it, so that
    segments which are dropped or compacted since are still there."""
    with file.cursor() as cursor:
        with lock:
            cursor.begin()
            next_topic, openings = tables.load_about(cursor)
            found = LogContents(
                next_topic,
                openings,
                tuple(contents.topics[name] for name in sorted(contents.topics)),
                {group: dict(own) for group, own in contents.positions.items()},
                dict(epochs),
            )
        try:
            yield LogSnapshot(found, cursor, file.path)
        finally:
            cursor.rollback()


def write_log(
    path: Path,
    contents: LogContents,
    rows: Callable[[Stored, Segment], Iterable[pa.RecordBatch]],
) -> None:
    """Make a new file with these contents. `rows` gives the rows of each segment. If this raises,
    there may be a part of the file."""
    connection = open_file(str(path), 1, None, None)
    try:
        with connection.cursor() as cursor:
            tables.prepare(cursor, str(path))
            for stored in contents.topics:
                _write_topic(cursor, stored, rows)
            _write_rest(cursor, contents)
            # Raises if it does not belong together.
            tables.load_topics(cursor)
            cursor.execute("CHECKPOINT")
    except duckdb.IOException as error:
        raise writing_error(str(path), error) from error
    except duckdb.Error as error:
        raise opening_error(str(path), error) from error
    finally:
        connection.close()


def _write_topic(
    cursor: duckdb.DuckDBPyConnection,
    stored: Stored,
    rows: Callable[[Stored, Segment], Iterable[pa.RecordBatch]],
) -> None:
    cursor.begin()
    tables.insert_known_topic(cursor, stored)
    bound = BoundRows(cursor)
    for segment in stored.segments:
        more = rewriting.MORE_COLUMNS if segment.generation else ""
        tables.insert_segment(cursor, stored, segment, more)
        for batch in rows(stored, segment):
            names = ", ".join(batch.schema.names)
            with bound.named(pa.Table.from_batches([batch])) as name:
                cursor.execute(
                    f"INSERT INTO {stored.relation(segment)} ({names}) SELECT {names} FROM {name}"
                )
    cursor.commit()


def _write_rest(cursor: duckdb.DuckDBPyConnection, contents: LogContents) -> None:
    cursor.begin()
    tables.store_about(cursor, contents.next_topic, contents.openings)
    starts = {
        (stored.id, part): start
        for stored in contents.topics
        for part, start in enumerate(stored.starts)
        if start
    }
    tables.insert_starts(cursor, starts)
    tables.move_positions(cursor, contents.positions, {})
    for identity, epoch in contents.epochs.items():
        cursor.execute("INSERT INTO log.writers VALUES (?, ?)", [identity, epoch])
    cursor.commit()

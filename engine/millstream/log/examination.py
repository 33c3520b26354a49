"""Reads everything in the file of an embedded log, and tells what is not as it should be.

DuckDB has a checksum for each block, which it verifies when it reads the block; so what is
damaged is found by reading it, whether a query would need it or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from millstream.log import tables
from millstream.log.commit_mark import noted
from millstream.log.duckfile import opening_error
from millstream.log.log import TopicPartition
from millstream.log.stored import Segment, Stored
from millstream.model.errors import CorruptionError
from millstream.model.file_damage import marked

_BATCH_ROWS = 65_536
_VALUES = 256
"""Read at once: the records of a changelog are batches."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Something in a database that is not as it should be: where, and what."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Examined:
    """What was read: how many records and topics, the ends of all partitions, and what is
    damaged."""

    records: int
    topics: int
    ends: Mapping[TopicPartition, int]
    damages: tuple[Damage, ...]


@contextmanager
def reading(path: str, *, suspect: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that cannot change the file, nor read another one. `suspect`: see `marked`."""
    try:
        with marked(path, suspect=suspect):
            connection = duckdb.connect(path, read_only=True, config={"threads": 1})
    except duckdb.Error as error:
        raise opening_error(path, error) from error
    try:
        yield connection
    finally:
        connection.close()


def examine_log(path: str) -> Examined:
    """Read all of a log that no process has open. Raises what opening it raises, if it does not
    even open; the file is not changed."""
    if not Path(path).exists():
        raise CorruptionError(f"There is no file '{path}'.", code="E-DISK-IO")
    with reading(path) as connection:
        found = _topics(connection, path)
        damages: list[Damage] = []
        records = 0
        ends: dict[TopicPartition, int] = {}
        for stored in found:
            records += _examine_topic(connection, stored, damages, ends)
        damages += _positions(connection, ends)
        held, expected = sum(ends.values()), noted(path)
        if held < expected:
            what = f"it holds {held} records, {expected} were committed: its end is lost"
            damages.append(Damage("log", what))
        return Examined(records, len(found), ends, tuple(damages))


@dataclass(frozen=True, slots=True)
class StoredValues:
    """The values of records in the file of a log."""

    connection: duckdb.DuckDBPyConnection
    topics: Mapping[str, Stored]

    def start(self, topic: str, partition: int) -> int | None:
        """The first offset that is retained; None if there is no such partition."""
        found = self.topics.get(topic)
        known = found is not None and partition < found.topic.partitions
        return found.starts[partition] if found is not None and known else None

    def read(self, topic: str, partition: int, stop: int) -> Iterator[pa.Table]:
        """The retained values before the offset `stop`, in order, as the column `value`."""
        stored = self.topics[topic]
        start = stored.starts[partition]
        for segment in stored.segments:
            if segment.first[partition] < stop:
                relation = self.connection.sql(
                    f"SELECT value FROM {stored.relation(segment)}"
                    f" WHERE part = {partition} AND off >= {start} AND off < {stop} ORDER BY off"
                )
                for batch in relation.to_arrow_reader(_VALUES):
                    yield pa.Table.from_batches([batch])


@contextmanager
def reading_values(path: str) -> Iterator[StoredValues]:
    """The values in a log that no process has open, and that `examine_log` has found well."""
    with reading(path) as connection:
        topics = {stored.topic.name: stored for stored in _topics(connection, path)}
        yield StoredValues(connection, topics)


def _topics(connection: duckdb.DuckDBPyConnection, path: str) -> list[Stored]:
    """The topics, without their ends, which only the records tell."""
    try:
        tables.check_version(connection, path)
        return tables.load_bounds(connection)
    except duckdb.Error as error:
        raise opening_error(path, error) from error
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CorruptionError(
            f"The tables of the log '{path}' do not belong together.", detail=str(error)
        ) from error


def _examine_topic(
    connection: duckdb.DuckDBPyConnection,
    stored: Stored,
    damages: list[Damage],
    ends: dict[TopicPartition, int],
) -> int:
    name, records = stored.topic.name, 0
    at, dense = list(stored.segments[0].first), True
    for segment in stored.segments:
        where = f"topic '{name}', segment {segment.number}"
        for part, (first, end) in enumerate(zip(segment.first, at, strict=True)):
            if first < end or (dense and first > end):
                what = f"it begins at {first}, the one in front of it ends at {end}"
                damages.append(Damage(f"{where}, partition {part}", what))
        dense = segment.generation == 0
        at = list(segment.first)
        try:
            for part, offsets in _rows(connection, stored, segment):
                records += len(offsets)
                what = _wrong(stored, segment, part, offsets, at)
                if what:
                    damages.append(Damage(f"{where}, partition {part}", what))
                if 0 <= part < len(at) and len(offsets):
                    at[part] = int(offsets[-1]) + 1
        except duckdb.Error as error:
            dense = False
            damages.append(Damage(where, str(error).splitlines()[0]))
    for part, end in enumerate(at):
        ends[name, part] = end
        if stored.starts[part] > end:
            what = f"it starts at {stored.starts[part]}, but ends at {end}"
            damages.append(Damage(f"topic '{name}', partition {part}", what))
    return records


def _rows(
    connection: duckdb.DuckDBPyConnection, stored: Stored, segment: Segment
) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
    """The offsets of a segment by partition, in the order in which they are stored; every column is
    read."""
    relation = connection.sql(f"SELECT * FROM {stored.relation(segment)}")
    for batch in relation.to_arrow_reader(_BATCH_ROWS):
        parts, offsets = batch["part"].to_numpy(), batch["off"].to_numpy()
        for part in np.unique(parts):
            yield int(part), offsets[parts == part]


def _wrong(
    stored: Stored, segment: Segment, part: int, offsets: np.ndarray[Any, Any], at: list[int]
) -> str:
    """What is wrong with offsets of a partition; "" if nothing."""
    if not 0 <= part < stored.topic.partitions:
        return "there is no such partition"
    if offsets[0] < at[part] or np.any(np.diff(offsets) <= 0):
        return f"the offsets from {offsets[0]} on are not in order"
    if segment.generation == 0:
        whole = offsets[0] == at[part] and offsets[-1] - offsets[0] == len(offsets) - 1
        if not whole:
            return f"records are missing between the offsets {at[part]} and {offsets[-1]}"
    return ""


def _positions(
    connection: duckdb.DuckDBPyConnection, ends: Mapping[TopicPartition, int]
) -> Iterator[Damage]:
    try:
        for group, positions in tables.load_positions(connection).items():
            for place, position in positions.items():
                if position > ends.get(place, -1):
                    topic, part = place
                    what = f"it has read up to {position} of {ends.get(place, 'no')} records"
                    yield Damage(f"group '{group}', topic '{topic}', partition {part}", what)
        tables.load_epochs(connection)
    except duckdb.Error as error:
        yield Damage("positions and writers", str(error).splitlines()[0])

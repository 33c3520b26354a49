"""Sealed segments: the records of an embedded log as Parquet files, for processes that cannot open
the log.

A DuckDB file that is in use cannot be opened by another process, so the unsealed part is sealed
before a job. Files are `<topic id>/<partition>/<first>-<end>.parquet`, their columns those of the
batches of its topic, by offset; a file appears completely or not at all. The Parquet footers have
the largest event time of each file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from millstream.history.reading import PIECE_RECORDS, ReadChunk, before, read_through
from millstream.history.splits import Split
from millstream.log.log import Log, TopicPartition
from millstream.model.batch import ARRIVAL, NUMBERED_SCHEMA, RAW_SCHEMA
from millstream.model.errors import CorruptionError, StatementError

SEGMENT_RECORDS = 1_000_000
_OWNER = "log-id"
_FORMAT: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": False,
    "write_statistics": ["offset", "timestamp"],
}
_RISING = ("offset", "timestamp", ARRIVAL)
"""Columns of mostly ascending numbers."""


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """The records with offsets in [first, end), in a file."""

    first: int
    end: int
    path: str


@dataclass(frozen=True, slots=True)
class FromSegments:
    """Reads sealed segments. Implements `reading.Source`."""

    segments: Mapping[TopicPartition, tuple[Segment, ...]]

    def pieces(self, split: Split) -> Iterator[ReadChunk]:
        """See `Source`. Raises CorruptionError when records are missing."""
        at = split.start
        for segment in self.segments.get((split.topic, split.partition), ()):
            if segment.first <= at < min(segment.end, split.end):
                for records in _read(segment, at):
                    at = records["offset"][-1].as_py() + 1
                    yield before(records, split.end), min(at, split.end)
                    if at >= split.end:
                        return
                if at < segment.end:
                    # The last offsets of it have no records.
                    at = min(segment.end, split.end)
                    yield _schema(pq.read_schema(segment.path)).empty_table(), at
        if at < split.end:
            raise CorruptionError(
                f"Topic '{split.topic}', partition {split.partition}: the records from offset {at}"
                f" to {split.end - 1} are in no sealed segment"
            )


def _read(segment: Segment, at: int) -> Iterator[pa.Table]:
    """The records of a segment from offset `at` on."""
    with pq.ParquetFile(segment.path) as file:
        dense = file.metadata.num_rows == segment.end - segment.first
        first = segment.first
        groups = []
        for number in range(file.num_row_groups):
            count = file.metadata.row_group(number).num_rows
            if not dense or first + count > at:
                groups.append(number)
            first += count
        for batch in file.iter_batches(PIECE_RECORDS, row_groups=groups, use_threads=False):
            records = pa.Table.from_batches([batch]).cast(_schema(batch.schema))
            lead = int(np.searchsorted(records["offset"].to_numpy(), at))
            if lead < records.num_rows:
                yield records.slice(lead)


def _schema(stored: pa.Schema) -> pa.Schema:
    return NUMBERED_SCHEMA if ARRIVAL in stored.names else RAW_SCHEMA


def sealed(log: Log[pa.Table], splits: Iterable[Split], folder: Path) -> FromSegments:
    """A source for the segments of these partitions that are in the folder already."""
    found = {}
    for split in splits:
        topic = log.topic(split.topic)
        if topic is not None:
            place = folder / topic.id / str(split.partition)
            start = log.start_offset(split.topic, split.partition)
            found[split.topic, split.partition] = tuple(_sealed(place, start))
    return FromSegments(found)


def seal(log: Log[pa.Table], splits: Iterable[Split], folder: Path) -> FromSegments:
    """Seal the missing part of these splits; returns a source for them.

    Segments of topics that are gone, and those of records that are no longer retained, are removed.
    One process seals a folder at a time. Raises StatementError for a missing topic.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sweep(log, folder)
    found = {}
    for split in splits:
        topic = log.topic(split.topic)
        if topic is None:
            raise StatementError(f"There is no topic '{split.topic}'")
        place = folder / topic.id / str(split.partition)
        place.mkdir(parents=True, exist_ok=True)
        schema = NUMBERED_SCHEMA if topic.numbered else RAW_SCHEMA
        known = _sealed(place, log.start_offset(split.topic, split.partition))
        first = known[-1].end if known else split.start
        added = [
            _written(log, Split(split.topic, split.partition, at, end), place, schema)
            for at, end in _ranges(first, split.end)
        ]
        found[split.topic, split.partition] = (*known, *added)
    return FromSegments(found)


def _ranges(first: int, end: int) -> Iterator[tuple[int, int]]:
    for at in range(first, end, SEGMENT_RECORDS):
        yield at, min(at + SEGMENT_RECORDS, end)


def _sealed(place: Path, start: int) -> list[Segment]:
    """The segments of a partition by offset; those before `start` are removed."""
    kept = []
    for path in place.glob("*.parquet"):
        first, _, end = path.stem.partition("-")
        if int(end) <= start:
            path.unlink(missing_ok=True)
        else:
            kept.append(Segment(int(first), int(end), str(path)))
    return sorted(kept)


def _written(log: Log[pa.Table], split: Split, place: Path, schema: pa.Schema) -> Segment:
    path = place / f"{split.start:020}-{split.end:020}.parquet"
    unfinished = place / f".{uuid4().hex}"
    encoding = {name: "DELTA_BINARY_PACKED" for name in _RISING if name in schema.names}
    with pq.ParquetWriter(unfinished, schema, column_encoding=encoding, **_FORMAT) as writer:
        for records, _ in read_through(log.read, split):
            writer.write_table(records, row_group_size=PIECE_RECORDS)
    unfinished.replace(path)
    return Segment(split.start, split.end, str(path))


def claim(folder: Path, log_id: str) -> None:
    """Bind a folder of segments to a log. Segments of another log, whose file was here before, are
    removed: its topics may have the same ids."""
    owner = folder / _OWNER
    if owner.exists() and owner.read_text(encoding="utf-8") == log_id:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    owner.write_text(log_id, encoding="utf-8")


def sweep(log: Log[pa.Table], folder: Path) -> None:
    """Remove the segments of deleted topics."""
    known = {topic.id for topic in log.topics()}
    for place in folder.iterdir():
        if place.is_dir() and place.name not in known:
            shutil.rmtree(place, ignore_errors=True)

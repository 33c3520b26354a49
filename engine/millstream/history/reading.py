"""The sources that read the records of splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from millstream.history.splits import Split
from millstream.log.log import Fetched, Log
from millstream.model.batch import NO_RECORDS

PIECE_RECORDS = 50_000

ReadChunk = tuple[pa.Table, int]
"""Records of one partition (`RAW_SCHEMA` or `NUMBERED_SCHEMA` of `model.batch`) in order, and the
next offset."""


class Source(Protocol):
    """Reads splits. It is sent to the reading process, so it is plain data until it is used."""

    def pieces(self, split: Split) -> Iterator[ReadChunk]:
        """The records of a split, in order; blocks until they have arrived."""


@dataclass(frozen=True, slots=True)
class FromLog:
    """Reads from a log that is open in this process."""

    log: Log[pa.Table]

    def pieces(self, split: Split) -> Iterator[ReadChunk]:
        """See `Source`."""
        return read_through(self.log.read, split)


def read_through(
    read: Callable[[str, int, int, int], Fetched[pa.Table]], split: Split
) -> Iterator[ReadChunk]:
    """Read a split completely, with blocking reads."""
    at = split.start
    while at < split.end:
        count = min(PIECE_RECORDS, split.end - at)
        fetched = read(split.topic, split.partition, at, count)
        at = fetched.next_offset
        yield before(fetched.batch, split.end), min(at, split.end)


def all_records(log: Log[pa.Table], split: Split) -> pa.Table:
    """The records of a split, all in memory."""
    pieces = [records for records, _ in read_through(log.read, split)]
    return pa.concat_tables(pieces) if pieces else NO_RECORDS


def before(records: pa.Table, end: int) -> pa.Table:
    """The records with offsets below `end`: there may be fewer records than offsets."""
    if records.num_rows == 0 or records["offset"][-1].as_py() < end:
        return records
    return records.filter(pc.less(records["offset"], end))


def pieces_of(source: Source, split: Split | None) -> Iterator[ReadChunk]:
    """The records of a split that may not exist."""
    return iter(()) if split is None else source.pieces(split)

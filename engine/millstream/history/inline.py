"""Sends small numbers of records along with the tasks, without writing a file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.ipc import pack, unpack
from millstream.history.reading import ReadChunk, Source, all_records
from millstream.history.sealed import FromSegments, seal, sealed
from millstream.history.splits import Split
from millstream.log.log import Log, TopicPartition

INLINE_BYTES = 4 << 20
"""The most bytes in memory of all records sent with a job."""
INLINE_RECORDS = 50_000
"""The same for one partition."""


@dataclass(frozen=True, slots=True)
class SplitTail:
    """The last records of a split, from offset `first` on, as an Arrow IPC batch; none if its
    offsets have no records."""

    first: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Inline:
    """Reads the tails of splits from memory and earlier records from another source. Implements
    `reading.Source`."""

    tails: Mapping[TopicPartition, SplitTail]
    rest: Source

    def pieces(self, split: Split) -> Iterator[ReadChunk]:
        """See `Source`."""
        tail = self.tails.get((split.topic, split.partition))
        first = split.end if tail is None else max(split.start, min(tail.first, split.end))
        if split.start < first:
            yield from self.rest.pieces(replace(split, end=first))
        if tail is not None and first < split.end:
            records = unpack(tail.content)
            offsets = records["offset"]
            here = pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, split.end))
            yield records.filter(here), split.end


def prepared(log: Log[pa.Table], splits: Iterable[Split], folder: Path) -> tuple[Source, bool]:
    """A source for splits of a log that workers cannot open. Sealed segments are read from the
    folder; of the remaining records, few are sent in memory and many are sealed now. The flag:
    whether nothing was sealed."""
    splits = tuple(splits)
    known = sealed(log, splits, folder)
    tails, large = _tails(log, (_unsealed(split, known) for split in splits))
    whole = [replace(split, start=log.start_offset(*_place(split))) for split in large]
    added = seal(log, whole, folder).segments if whole else {}
    return Inline(tails, FromSegments({**known.segments, **added})), not large


def beside(
    log: Log[pa.Table], splits: Iterable[Split], reading: Source, states: Collection[str]
) -> tuple[Source, bool]:
    """A source for splits of a log that workers can read themselves (`reading`); few records are
    sent in memory. The flag: whether all of them are, except `states`, topics whose rows move on to
    no other topic."""
    tails, large = _tails(log, splits)
    return Inline(tails, reading), all(split.topic in states for split in large)


def _tails(
    log: Log[pa.Table], splits: Iterable[Split]
) -> tuple[dict[TopicPartition, SplitTail], list[Split]]:
    """The records of small splits, and the splits that are too large for that."""
    tails, large, room = dict[TopicPartition, SplitTail](), list[Split](), INLINE_BYTES
    for split in splits:
        records = _records(log, split)
        if records is None or records.nbytes > room:
            large.append(split)
        elif split.end > split.start:
            room -= records.nbytes
            tails[_place(split)] = SplitTail(split.start, pack(records))
    return tails, large


def _unsealed(split: Split, known: FromSegments) -> Split:
    """The part of a split that is in no segment."""
    listed = known.segments.get(_place(split), ())
    return replace(split, start=max(split.start, listed[-1].end)) if listed else split


def _place(split: Split) -> TopicPartition:
    return split.topic, split.partition


def _records(log: Log[pa.Table], split: Split) -> pa.Table | None:
    """All records of a split; None where there may be too many of them."""
    return None if split.end - split.start > INLINE_RECORDS else all_records(log, split)

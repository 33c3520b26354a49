"""Records that travel with the work, where they are few: no file is written for them."""

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
"""Of all the records that travel with a job, as they lie in memory."""
INLINE_RECORDS = 50_000
"""Of one partition."""


@dataclass(frozen=True, slots=True)
class SplitTail:
    """The last records of a split, from offset `first` on, as an Arrow IPC batch; none where there
    are offsets and no records."""

    first: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Inline:
    """Reads the tails of splits from memory and what is before them from elsewhere. Implements
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
    """What reads splits of a log that workers cannot open: what is sealed in the folder already
    from there, of the rest what is little from memory; what is much is sealed now. The flag says
    whether nothing was."""
    splits = tuple(splits)
    known = sealed(log, splits, folder)
    tails, large = _tails(log, (_unsealed(split, known) for split in splits))
    whole = [replace(split, start=log.start_offset(*_place(split))) for split in large]
    added = seal(log, whole, folder).segments if whole else {}
    return Inline(tails, FromSegments({**known.segments, **added})), not large


def beside(
    log: Log[pa.Table], splits: Iterable[Split], reading: Source, states: Collection[str]
) -> tuple[Source, bool]:
    """What reads splits of a log that workers can read themselves (`reading`): what is little from
    memory. The flag says whether all is but `states`, topics from which nothing moves on."""
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
    """What of a split is in no segment."""
    listed = known.segments.get(_place(split), ())
    return replace(split, start=max(split.start, listed[-1].end)) if listed else split


def _place(split: Split) -> TopicPartition:
    return split.topic, split.partition


def _records(log: Log[pa.Table], split: Split) -> pa.Table | None:
    """All records of a split; None where there may be too many of them."""
    return None if split.end - split.start > INLINE_RECORDS else all_records(log, split)

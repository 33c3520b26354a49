"""Filters the records of a source by bounds of event time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.codec import OFFSET, DecodeSpec
from millstream.formats.decoder import Decoder, decoder
from millstream.history.ranges import Bounds
from millstream.history.reading import ReadChunk, Source
from millstream.history.splits import Split
from millstream.model.batch import ROWTIME
from millstream.model.errors import StatementError

COMPACTED = "E-HISTORY-COMPACTED"
"""Compaction may have removed records of the range in favour of later ones of the same keys."""


@dataclass(frozen=True, slots=True)
class Timed:
    """The bounds of a topic, and how to read its records' event time from a column.

    `compacted`: the log may have deleted all records of a key except the last. The contents of a
    table are complete nevertheless if no record is missing, or none is beyond the range; `cut`:
    some are.
    """

    bounds: Bounds
    spec: DecodeSpec | None = None
    compacted: bool = False
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Within:
    """Implements `Source`: leaves out the records of `topics` outside their bounds, as if the log
    never had them."""

    source: Source
    topics: Mapping[str, Timed]

    def pieces(self, split: Split) -> Iterator[ReadChunk]:
        """See `Source`."""
        timed = self.topics.get(split.topic)
        pieces = self.source.pieces(split)
        if timed is None or (timed.bounds.open and not timed.compacted):
            return pieces
        return _within(pieces, split, timed)


def _within(pieces: Iterator[ReadChunk], split: Split, timed: Timed) -> Iterator[ReadChunk]:
    at, holes, beyond = split.start, False, timed.cut
    decoding = nullcontext() if timed.spec is None else decoder(timed.spec, split.topic)
    with decoding as decoded:
        for records, following in pieces:
            kept, later = _chosen(records, split.partition, timed.bounds, decoded)
            holes |= records.num_rows < following - at
            beyond |= later
            if timed.compacted and holes and beyond:
                raise _compacted(split)
            at = following
            yield kept, following


def _chosen(
    records: pa.Table, partition: int, bounds: Bounds, decoded: Decoder | None
) -> tuple[pa.Table, bool]:
    """The records within the bounds, and whether any is beyond them."""
    if decoded is None:
        times = records["timestamp"]
        kept = records.filter(_inside(times, bounds))
    else:
        usable = decoded(records, partition).table
        times = usable[ROWTIME]
        inside = usable.filter(_inside(times, bounds))[OFFSET].combine_chunks()
        kept = records.filter(pc.is_in(records["offset"], inside))
    latest = pc.max(times).as_py()
    return kept, bounds.end is not None and latest is not None and latest >= bounds.end


def _compacted(split: Split) -> StatementError:
    return StatementError(
        f"What the table was is not known any more: topic {split.topic} is compacted, and records"
        f" of partition {split.partition} are missing that later ones have replaced.",
        hint="Ask for the table as it is now; min.compaction.lag.ms of the topic says for how long"
        " all records are kept.",
        code=COMPACTED,
    )


def _inside(times: pa.ChunkedArray, bounds: Bounds) -> pa.ChunkedArray:
    inside = pc.is_valid(times)
    if bounds.begin is not None:
        inside = pc.and_(inside, pc.greater_equal(times, bounds.begin))
    if bounds.end is not None:
        inside = pc.and_(inside, pc.less(times, bounds.end))
    return inside

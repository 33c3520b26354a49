"""Records of a source that lie within bounds of event time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.codec import OFFSET, DecodeSpec, decode
from millstream.history.ranges import Bounds
from millstream.history.reading import Piece, Source
from millstream.history.splits import Split
from millstream.model.batch import PART, ROWTIME


@dataclass(frozen=True, slots=True)
class Timed:
    """The bounds of a topic, and how to learn its records' event time where that is a column."""

    bounds: Bounds
    spec: DecodeSpec | None = None


@dataclass(frozen=True, slots=True)
class Within:
    """Implements `Source`: leaves out the records of `topics` that lie out of their bounds, as if
    the log had never had them."""

    source: Source
    topics: Mapping[str, Timed]

    def pieces(self, split: Split) -> Iterator[Piece]:
        """See `Source`."""
        timed = self.topics.get(split.topic)
        pieces = self.source.pieces(split)
        if timed is None or timed.bounds.open:
            return pieces
        return _within(pieces, split, timed)


def _within(pieces: Iterator[Piece], split: Split, timed: Timed) -> Iterator[Piece]:
    con = duckdb.connect(config={"threads": 1})
    try:
        for records, following in pieces:
            if timed.spec is None:
                yield records.filter(_inside(records["timestamp"], timed.bounds)), following
                continue
            times = event_times(con, records, timed.spec, split)
            kept = times.filter(_inside(times[ROWTIME], timed.bounds))
            chosen = pc.is_in(records["offset"], kept[OFFSET].combine_chunks())
            yield records.filter(chosen), following
    finally:
        con.close()


def event_times(
    con: duckdb.DuckDBPyConnection, records: pa.Table, spec: DecodeSpec, split: Split
) -> pa.Table:
    """`$offset` and `$rowtime` of the usable records; `spec` asks for no columns."""
    part = pa.array([split.partition] * records.num_rows, pa.int32())
    return decode(con, records.append_column(PART, part), spec, split.topic).table


def _inside(times: pa.ChunkedArray, bounds: Bounds) -> pa.ChunkedArray:
    inside = pc.is_valid(times)
    if bounds.begin is not None:
        inside = pc.and_(inside, pc.greater_equal(times, bounds.begin))
    if bounds.end is not None:
        inside = pc.and_(inside, pc.less(times, bounds.end))
    return inside

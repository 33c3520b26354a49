"""The in-memory metadata of an embedded log's topics.

Only one process can open the file, so offsets are counted in memory and published after a commit;
on opening they are derived from the records. An append writes nothing but records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.log.log import Appended, Topic
from millstream.log.policy import Policy
from millstream.model.batch import NUMBERED_SCHEMA, RAW_SCHEMA

LARGE_SEGMENT_BYTES = 32 << 20
LARGE_SEGMENT_RECORDS = 32_768
DEAD_BYTES = 2 << 20
"""From this size on, a segment is closed when half of it is truncated: only a closed one can be
dropped, and without that, each changelog would keep as much as a segment may have."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One table of a topic's records, in append order.

    `first` is the offset each partition had reached when the segment began. `headers`: whether it
    has a column for headers, which costs a tenth of an append; the first record with headers opens
    a new segment. `records` and `bytes` determine when a segment is full. `generation`: how often
    it was written again by compaction; where that is more than 0, records are missing. `cleaned`:
    whether it was compacted, although nothing may have left it.
    """

    number: int
    first: tuple[int, ...]
    records: int = 0
    bytes: int = 0
    headers: bool = False
    since: int | None = None
    """The time in ms of its first record; None: it has none, or that is not known."""
    generation: int = 0
    cleaned: bool = False

    @property
    def table(self) -> tuple[int, int]:
        """Tells it from all others that the topic has and had."""
        return self.number, self.generation

    def full(self, most_bytes: int) -> bool:
        """Whether the next append opens a new segment.

        A checkpoint rewrites the unfinished row group (122,880 records) of a table, so a table of
        large records (batches on repartition topics) is closed while it is still small.
        """
        if self.bytes >= most_bytes:
            return True
        return self.bytes >= LARGE_SEGMENT_BYTES and self.records <= LARGE_SEGMENT_RECORDS


@dataclass(frozen=True, slots=True)
class Stored:
    """A topic with its segments (oldest first) and the bounds of its partitions."""

    id: int
    topic: Topic
    segments: tuple[Segment, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    policy: Policy

    @property
    def schema(self) -> pa.Schema:
        """The schema of batches read from the topic."""
        return NUMBERED_SCHEMA if self.topic.numbered else RAW_SCHEMA

    def relation(self, segment: Segment) -> str:
        """The table that holds a segment."""
        again = f"_{segment.generation}" if segment.generation else ""
        return f"log.records_{self.id}_{segment.number}{again}"

    def dense_from(self, partition: int) -> int:
        """The offset from which on there is a record at each offset."""
        for segment, following in reversed(tuple(pairwise(self.segments))):
            if segment.generation:
                return following.first[partition]
        return 0

    def replaced(self, old: Sequence[Segment], new: Segment) -> Stored | None:
        """With one segment in place of those that it replaces; None if they are not all there."""
        tables = [segment.table for segment in self.segments]
        if old[0].table not in tables:
            return None
        at = tables.index(old[0].table)
        stop = at + len(old)
        if tables[at:stop] != [segment.table for segment in old] or stop >= len(tables):
            return None
        return replace(self, segments=(*self.segments[:at], new, *self.segments[stop:]))

    @property
    def half_dead(self) -> bool:
        """Whether most records of the last segment are truncated, and they are many."""
        last = self.segments[-1]
        if last.bytes < DEAD_BYTES:
            return False
        dead = sum(max(0, start - at) for start, at in zip(self.starts, last.first, strict=True))
        return 2 * dead >= last.records

    def segment_ends(self, partition: int) -> list[int]:
        """For each segment, the offset of a partition that follows its last one."""
        bounds = [segment.first[partition] for segment in self.segments[1:]]
        return [*bounds, self.ends[partition]]

    def segments_between(self, partition: int, first: int, stop: int) -> tuple[Segment, ...]:
        """The segments that hold any of a partition's offsets `first` to `stop` (exclusive)."""
        return tuple(
            segment
            for segment, end in zip(self.segments, self.segment_ends(partition), strict=True)
            if max(segment.first[partition], first) < min(end, stop)
        )

    def dead_segments(self) -> tuple[Segment, ...]:
        """Closed segments without retained records, oldest first."""
        dead = []
        for segment, following in zip(self.segments, self.segments[1:], strict=False):
            if any(f > s for f, s in zip(following.first, self.starts, strict=True)):
                break
            dead.append(segment)
        return tuple(dead)


def records_given(topics: Iterable[Stored]) -> int:
    """How many records these topics were ever given."""
    return sum(sum(stored.ends) for stored in topics)


@dataclass(frozen=True, slots=True)
class Insertion:
    """Rows to insert into one topic's last segment. `opened`: the segment is new; `before` and
    `after` are the topic around the append."""

    before: Stored
    after: Stored
    rows: pa.Table
    opened: bool
    placed: tuple[tuple[int, int, pa.Table], ...]
    """(partition, first offset, records) for readers that follow the end of the log."""


def _aged(stored: Stored, newest: int | None) -> bool:
    """Whether a segment is closed because of its age."""
    apart, since = stored.policy.segment_ms, stored.segments[-1].since
    if apart is None or since is None or newest is None:
        return False
    return newest - since >= apart


def _newest(appended: Sequence[Appended[pa.Table]]) -> int | None:
    times = [pc.max(append.batch["timestamp"]).as_py() for append in appended]
    return max((time for time in times if time is not None), default=None)


def plan_insertion(stored: Stored, appended: Sequence[Appended[pa.Table]]) -> Insertion:
    """Assign offsets to the records of all appends to one topic and lay them out as rows."""
    segment = stored.segments[-1]
    policy = stored.policy
    newest = _newest(appended) if policy.segment_ms is not None else None
    headers = any(append.batch["headers"].null_count < append.batch.num_rows for append in appended)
    full = segment.full(policy.segment_bytes)
    full = full or stored.half_dead
    opened = full or (headers and not segment.headers) or _aged(stored, newest)
    if opened:
        segment = Segment(segment.number + 1, stored.ends, headers=headers)
    ends = list(stored.ends)
    pieces, placed = [], []
    for append in appended:
        batch = append.batch.select(stored.schema.names)
        first, count = ends[append.partition], batch.num_rows
        ends[append.partition] = first + count
        batch = batch.set_column(
            0, RAW_SCHEMA.field(0), pa.array(np.arange(first, first + count, dtype=np.int64))
        ).cast(stored.schema)
        part = pa.array(np.full(count, append.partition, dtype=np.int32))
        pieces.append(batch.add_column(0, "part", part))
        placed.append((append.partition, first, batch))
    rows = pa.concat_tables(pieces)
    grown = replace(
        segment,
        records=segment.records + rows.num_rows,
        bytes=segment.bytes + rows.nbytes,
        since=newest if segment.since is None else segment.since,
    )
    kept = stored.segments if opened else stored.segments[:-1]
    after = replace(stored, segments=(*kept, grown), ends=tuple(ends))
    return Insertion(
        before=stored,
        after=after,
        rows=rows if headers else rows.drop_columns(["headers"]),
        opened=opened,
        placed=tuple(placed),
    )

"""The fetched records of one partition, and the positions of the readers that share them."""

from __future__ import annotations

import time
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.log.log import TopicPartition as Place
from millstream.model.batch import NO_RECORDS
from millstream.model.errors import MillstreamError


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Records that arrived together. `rows_before` and `bytes_before` count all that arrived
    earlier, so that the distance between two positions is a subtraction."""

    records: pa.Table
    last: int
    """The offset of the last record."""
    bytes: int
    rows_before: int
    bytes_before: int

    @property
    def rows_after(self) -> int:
        return self.rows_before + int(self.records.num_rows)


class PartitionBuffer:
    """Records from `start` up to `next`, the client's next offset, for any number of cursors. What
    all cursors have passed is dropped; without cursors, everything is. `end` is set while the
    client reports the end of the partition. Not thread-safe: the fetcher has a lock."""

    def __init__(self, offset: int) -> None:
        self.start = offset
        """The first offset that a cursor can be opened at."""
        self.next = offset
        self.end: int | None = None
        self.fault: MillstreamError | None = None
        """Why nothing will be added any more."""
        self.cursors: list[Cursor] = []
        self.patience = 0.0
        """How long readers wait for this partition before another consumer is tried; 0: as long as
        by default."""
        self.starved_since: float | None = None
        """Since when it is full although one of its readers has read everything."""
        self.rows = 0
        """Records that were ever added."""
        self.bytes_added = 0
        self._chunks: list[_Chunk] = []

    @property
    def count(self) -> int:
        """Records that the slowest cursor has not passed."""
        return self.rows - min((cursor.rows for cursor in self.cursors), default=self.rows)

    @property
    def bytes(self) -> int:
        """Bytes that the slowest cursor has not passed."""
        passed = min((cursor.bytes for cursor in self.cursors), default=self.bytes_added)
        return self.bytes_added - passed

    def open(self, place: Place, offset: int, owner: object = None) -> Cursor:
        """A cursor at an offset, for one reader."""
        cursor = Cursor(self, place, offset, owner)
        self.cursors.append(cursor)
        return cursor

    def close(self, cursor: Cursor) -> None:
        """Drop what was held for a cursor; idempotent."""
        cursor.attached = False
        if cursor in self.cursors:
            self.cursors.remove(cursor)
            self.trim()

    def add(self, records: pa.Table) -> None:
        """Append records; `next` moves behind them. Records that were here already are left out,
        whatever the client returns: no record is processed twice."""
        if records["offset"][0].as_py() < self.next:
            records = records.slice(_before(records, self.next))
            if not records.num_rows:
                return
        last, size = records["offset"][-1].as_py(), int(records.nbytes)
        self._chunks.append(_Chunk(records, last, size, self.rows, self.bytes_added))
        ahead = [cursor for cursor in self.cursors if cursor.offset > self.next]
        self.rows += records.num_rows
        self.bytes_added += size
        self.next = last + 1
        self.end = None
        self.patience = 0.0
        for cursor in self.cursors:
            cursor.awaited = None
        for cursor in ahead:
            cursor.pass_to(cursor.offset)
        if ahead or not self.cursors:
            self.trim()

    def reach(self, end: int) -> None:
        """Note that the partition has no more records for now."""
        if self.end is None or end > self.next:
            for cursor in self.cursors:
                cursor.awaited = None
        self.end = end
        self.next = max(self.next, end)
        if not self.cursors:
            self.start = self.next

    def trim(self) -> None:
        """Drop what no cursor needs."""
        if not self.cursors:
            self._chunks.clear()
            self.start = self.next
            return
        floor = min(cursor.rows for cursor in self.cursors)
        passed = 0
        while passed < len(self._chunks) and self._chunks[passed].rows_after <= floor:
            passed += 1
        if passed:
            self.start = self._chunks[passed - 1].last + 1
            del self._chunks[:passed]

    def before(self, offset: int) -> tuple[int, int]:
        """How many records and bytes ever added lie before an offset."""
        found = bisect_right(self._chunks, offset, key=lambda chunk: chunk.last + 1)
        if found == len(self._chunks):
            return self.rows, self.bytes_added
        chunk = self._chunks[found]
        passed = _before(chunk.records, offset)
        size = chunk.bytes * passed // chunk.records.num_rows
        return chunk.rows_before + passed, chunk.bytes_before + size

    def slice(self, row: int, count: int) -> pa.Table:
        """At most `count` records from the `row`th on, counted from the first ever added. It shares
        the memory of what arrived."""
        taken: list[pa.Table] = []
        index = bisect_right(self._chunks, row, key=lambda chunk: chunk.rows_after)
        while count > 0 and index < len(self._chunks):
            chunk = self._chunks[index]
            part = chunk.records.slice(row - chunk.rows_before, count)
            taken.append(part)
            count -= part.num_rows
            row += part.num_rows
            index += 1
        if not taken:
            return NO_RECORDS
        return taken[0] if len(taken) == 1 else pa.concat_tables(taken)


class Cursor:
    """The position of one reader in a buffer: it holds the records from `offset` on."""

    def __init__(self, buffer: PartitionBuffer, place: Place, offset: int, owner: object) -> None:
        self.buffer = buffer
        self.place = place
        self.owner = owner
        self.attached = True
        """Whether the records from `offset` on are still held for it."""
        self.reserved = False
        """Whether its reader still reads elsewhere and will come to this position."""
        self.awaited: float | None = None
        """Since when its reader waits for more records, by the monotonic clock."""
        self.used = time.monotonic()
        self._stuck = (-1, 0.0)
        self.pass_to(offset)

    @property
    def next(self) -> int:
        """The client's next offset."""
        return self.buffer.next

    @property
    def end(self) -> int | None:
        """See `PartitionBuffer`."""
        return self.buffer.end

    @property
    def count(self) -> int:
        """Records from `offset` on."""
        return self.buffer.rows - self.rows

    @property
    def size(self) -> int:
        """Their bytes."""
        return self.buffer.bytes_added - self.bytes

    def move(self, offset: int) -> bool:
        """Go to an offset and release the records before it; returns whether the records from there
        on are here."""
        if not self.attached or not self.buffer.start <= offset <= self.buffer.next:
            return False
        if offset != self.offset:
            self.pass_to(offset)
            self.buffer.trim()
        return True

    def pass_to(self, offset: int) -> None:
        """Set the position alone."""
        self.offset = offset
        self.rows, self.bytes = self.buffer.before(offset)

    def first(self, count: int, before: int | None = None) -> pa.Table:
        """At most `count` records from `offset` on, with offsets below `before`."""
        if before is not None and before < self.buffer.next:
            count = min(count, self.buffer.before(before)[0] - self.rows)
        return self.buffer.slice(self.rows, count) if self.count else NO_RECORDS

    def stuck(self, seconds: float) -> bool:
        """Whether nothing has arrived for too long since the first call; call it only while more
        records are known to exist."""
        now = time.monotonic()
        at, since = self._stuck
        if at != self.next:
            self._stuck = (self.next, now)
            return False
        return now >= since + seconds


def _before(records: pa.Table, offset: int) -> int:
    """The number of records before an offset."""
    offsets = records["offset"]
    # A column of one chunk is not copied.
    own = offsets.chunk(0) if offsets.num_chunks == 1 else offsets
    return int(np.searchsorted(own.to_numpy(), offset))

"""The fetched records of one partition that are not consumed yet."""

from __future__ import annotations

import time
from collections import deque

import numpy as np
import pyarrow as pa

from millstream.model.batch import NO_RECORDS
from millstream.model.errors import MillstreamError


class PartitionBuffer:
    """Batches from `start`, the last requested position, up to `next`, the client's next offset.
    `end` is set while the client reports the end of the partition."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.next = start
        self.end: int | None = None
        self.fault: MillstreamError | None = None
        self.awaited: float | None = None
        """Since when a reader waits for more records, by the monotonic clock."""
        self.count = 0
        self.bytes = 0
        self._pieces: deque[pa.Table] = deque()
        self._stuck = (-1, 0.0)

    def add(self, piece: pa.Table) -> None:
        """Append records; `next` moves behind them. Records that are here already are left out,
        whatever the client returns: no record is processed twice."""
        if piece["offset"][0].as_py() < self.next:
            piece = piece.slice(_before(piece, self.next))
            if not piece.num_rows:
                return
        self._pieces.append(piece)
        self._count(piece, 1)
        self.next = piece["offset"][-1].as_py() + 1
        self.end = self.awaited = None

    def reach(self, end: int) -> None:
        """Note that the partition has no more records for now."""
        if self.end is None or end > self.next:
            self.awaited = None
        self.end = end
        self.next = max(self.next, end)

    def stuck(self, seconds: float) -> bool:
        """Whether nothing has arrived for too long since the first call; call it only while more
        records are known to exist."""
        now = time.monotonic()
        at, since = self._stuck
        if at != self.next:
            self._stuck = (self.next, now)
            return False
        return now >= since + seconds

    def pass_to(self, offset: int) -> None:
        """Drop the records before `offset`."""
        self.start = offset
        while self._pieces and self._pieces[0]["offset"][-1].as_py() < offset:
            self._count(self._pieces.popleft(), -1)
        if self._pieces and self._pieces[0]["offset"][0].as_py() < offset:
            piece = self._pieces.popleft()
            self._count(piece, -1)
            rest = piece.slice(_before(piece, offset))
            self._pieces.appendleft(rest)
            self._count(rest, 1)

    def first(self, count: int, before: int | None = None) -> pa.Table:
        """At most `count` records from `start` on, with offsets below `before`."""
        taken: list[pa.Table] = []
        for piece in self._pieces:
            if count <= 0:
                break
            taken.append(piece if piece.num_rows <= count else piece.slice(0, count))
            count -= piece.num_rows
        if not taken:
            return NO_RECORDS
        found = taken[0] if len(taken) == 1 else pa.concat_tables(taken)
        if before is None or before >= self.next:
            return found
        return found.slice(0, _before(found, before))

    def _count(self, piece: pa.Table, sign: int) -> None:
        self.count += sign * piece.num_rows
        self.bytes += sign * int(piece.nbytes)


def _before(records: pa.Table, offset: int) -> int:
    """The number of records before an offset."""
    return int(np.searchsorted(records["offset"].to_numpy(), offset))

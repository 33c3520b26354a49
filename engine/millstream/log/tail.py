"""The newest records of every partition, kept as the Arrow tables they were appended as."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass

import pyarrow as pa

from millstream.log.log import TopicPartition

_MAX_CHUNKS = 8
PIECE_BYTES = 7 << 10
"""What an Arrow table of a few records takes in memory beside the bytes of its buffers."""


@dataclass(frozen=True, slots=True)
class _Piece:
    first: int
    records: pa.Table
    bytes: int

    @property
    def stop(self) -> int:
        return self.first + int(self.records.num_rows)


class TailCache:
    """Bounded memory of the last appends; readers at the end of the log use it instead of DuckDB.

    Not thread-safe: the lock of `Contents` guards it.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._pieces: dict[TopicPartition, deque[_Piece]] = {}
        self._order: OrderedDict[int, TopicPartition] = OrderedDict()
        self._added = 0

    def add(self, at: TopicPartition, first: int, records: pa.Table) -> None:
        """Remember committed records; the oldest of all partitions make room for them."""
        piece = _Piece(first, records, records.nbytes + PIECE_BYTES)
        self._pieces.setdefault(at, deque()).append(piece)
        self._order[self._added] = at
        self._added += 1
        self._bytes += piece.bytes
        while self._bytes > self._max_bytes:
            _, oldest = self._order.popitem(last=False)
            self._bytes -= self._drop(oldest)

    def _drop(self, at: TopicPartition) -> int:
        pieces = self._pieces.get(at)
        if not pieces:
            return 0
        dropped = pieces.popleft()
        if not pieces:
            del self._pieces[at]
        return dropped.bytes

    def find(self, at: TopicPartition, first: int, stop: int) -> pa.Table | None:
        """The records with offsets in [first, stop), or None when some are missing."""
        pieces = self._pieces.get(at)
        if not pieces or pieces[0].first > first:
            return None
        found = []
        for piece in reversed(pieces):
            if piece.first < stop and piece.stop > first:
                begin = max(first - piece.first, 0)
                found.append(
                    piece.records.slice(begin, min(stop, piece.stop) - piece.first - begin)
                )
            if piece.first <= first:
                break
        table = pa.concat_tables(reversed(found))
        return table if len(found) <= _MAX_CHUNKS else table.combine_chunks()

    def forget(self, topic: str) -> None:
        """Drop everything of a topic that was deleted."""
        for at in [at for at in self._pieces if at[0] == topic]:
            self._bytes -= sum(piece.bytes for piece in self._pieces.pop(at))
        kept = [at for at in self._order.values() if at[0] != topic]
        self._order = OrderedDict(enumerate(kept))
        self._added = len(kept)

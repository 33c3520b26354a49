"""A reader for small reads of a log on which each read costs the same, whatever its size."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.log.log import DirectReader, Fetched, Log, TopicPartition, read_before

AHEAD = 8192


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was read from an offset on."""

    read: Fetched[pa.Table]
    offset: int

    @property
    def count(self) -> int:
        """How many records it has."""
        return self.read.count

    @property
    def end(self) -> bool:
        """Whether there was nothing more."""
        return self.read.end

    @property
    def _dense(self) -> bool:
        """Whether there is a record at each offset."""
        return self.offset + self.count == self.read.next_offset

    def row(self, offset: int) -> int:
        """Where the first record with this offset or a later one is; -1 if that is not known."""
        if self._dense or offset < self.offset:
            return max(-1, offset - self.offset)
        return int(np.searchsorted(self.read.batch["offset"].to_numpy(), offset))

    def following(self, row: int) -> int:
        """The offset behind the record before a row, which is not the first one."""
        return self.offset + row if self._dense else self.read.batch["offset"][row - 1].as_py() + 1


class AheadReader:
    """Fetches more than requested and returns the rest on the next read. The log must report the
    ends of several partitions as of one moment."""

    def __init__(
        self, log: Log[pa.Table], large: Callable[[str, int, int, int], Fetched[pa.Table]]
    ) -> None:
        """`large`: as `Log.read`, for reads that cost what they bring; their records may be read
        `later`."""
        self._log = log
        self._large = large
        self._direct = DirectReader(log)
        self._kept: dict[TopicPartition, _Kept] = {}
        self._ends: Mapping[TopicPartition, int] = {}
        self._nothing: dict[str, pa.Table] = {}
        """A batch without records for each topic."""

    def begin(self, together: Collection[TopicPartition] = ()) -> None:
        """See `Reader`: what arrives later is not read before the next call."""
        self._ends = self._log.end_offsets(together) if len(together) > 1 else {}

    def read(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_records: int,
        before: int | None = None,
    ) -> Fetched[pa.Table]:
        """See `Reader`."""
        end = self._ends.get((topic, partition))
        if end == offset and topic in self._nothing:
            # Most partitions, mostly: one record arrives on one of them.
            return Fetched(topic, partition, self._nothing[topic], 0, offset, end=True)
        bounds = [at for at in (before, end) if at is not None]
        if not bounds:
            return self._read(topic, partition, offset, max_records)
        return read_before(
            lambda count: self._read(topic, partition, offset, count),
            offset,
            max_records,
            min(bounds),
        )

    def _read(self, topic: str, partition: int, offset: int, max_records: int) -> Fetched[pa.Table]:
        topic_partition = (topic, partition)
        if max_records >= AHEAD:
            self._kept.pop(topic_partition, None)
            return self._large(topic, partition, offset, max_records)
        kept = self._kept.get(topic_partition)
        first = -1 if kept is None else kept.row(offset)
        gone = offset < self._log.start_offset(topic, partition)
        # What is left of it may be few records, and a run costs much whatever it reads.
        short = kept is not None and not kept.end and first + max_records > kept.count
        if kept is None or gone or short or not 0 <= first < kept.count:
            read = self._log.read(topic, partition, offset, AHEAD)
            kept = self._kept[topic_partition] = _Kept(read, offset)
            first = 0
        batch = kept.read.batch.slice(first, max(max_records, 0))
        self._nothing.setdefault(topic, batch.slice(0, 0))
        if batch.num_rows < max_records:
            following = kept.read.next_offset
        else:
            following = kept.following(first + batch.num_rows) if batch.num_rows else offset
        end = following == self._log.end_offset(topic, partition)
        return Fetched(topic, partition, batch, batch.num_rows, following, end, batch.nbytes)

    def ready(self, positions: Mapping[TopicPartition, int]) -> int:
        """The number of records between the positions and the ends."""
        return self._direct.ready(positions)

    def close(self) -> None:
        """Release what was fetched."""
        self._kept.clear()
        self._nothing.clear()

"""How many records to fetch of each partition that a sub-topology reads."""

from __future__ import annotations

from collections.abc import Collection

from millstream.log.log import Batch, Fetched, TopicPartition
from millstream.runtime.spec import RuntimeSettings

PACE_MIN = 1 << 17
"""The fewest bytes of records to fetch of a partition whose records are held back."""
MOVED_MIN = 1 << 20
"""The same of a repartition topic: its records are decoded once, however often they are held back.
They hold many rows, and a run ends with the first of the last rows that were read of each
partition, so of single records it takes few."""


class FetchQuota:
    """Shares of a batch, computed from what was read and consumed before."""

    def __init__(self) -> None:
        self.behind: set[TopicPartition] = set()
        """Partitions that were not read to their end."""
        self._record_bytes: dict[TopicPartition, int] = {}
        self._pace: dict[TopicPartition, int] = {}

    def quota(
        self,
        topic_partition: TopicPartition,
        topic_partitions: Collection[TopicPartition],
        settings: RuntimeSettings,
    ) -> int:
        """Records to fetch. Partitions that are behind share a batch; the others get the same share
        of all partitions, so that skewed input still makes large batches."""
        sharing = len(self.behind) if topic_partition in self.behind else len(topic_partitions)
        share = settings.max_batch_records // max(1, sharing)
        by_size = settings.max_partition_bytes // self._record_bytes.get(topic_partition, 1)
        return max(1, min(share, by_size, self._pace.get(topic_partition, share)))

    def read(self, topic_partition: TopicPartition, fetched: Fetched[Batch]) -> None:
        """Count what was fetched."""
        if fetched.count:
            self._record_bytes[topic_partition] = max(1, fetched.bytes // fetched.count)
        if fetched.end:
            self.behind.discard(topic_partition)
        else:
            self.behind.add(topic_partition)

    def consumed(
        self, topic_partition: TopicPartition, taken: int, offered: int, *, moved: bool = False
    ) -> None:
        """Read less of a partition whose records are held back, more again when they are not.
        `moved`: of a repartition topic."""
        if taken < offered:
            least = MOVED_MIN if moved else PACE_MIN
            fewest = max(1, least // self._record_bytes.get(topic_partition, 1))
            self._pace[topic_partition] = max(fewest, 2 * taken)
        elif topic_partition in self._pace:
            self._pace[topic_partition] = max(self._pace[topic_partition], 2 * taken)


def records_between(fetched: Fetched[Batch], before: int, after: int) -> int:
    """The number of records between two offsets. Where some offsets are gaps (transaction markers)
    and not all was consumed, the exact number is unknown: a proportional share is returned."""
    span = fetched.next_offset - before
    return fetched.count * (after - before) // span if span else 0

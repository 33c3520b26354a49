"""How long a task waits for an input without records, so that it takes records in the order of time
(`max.task.idle.ms`, KIP-695)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from millstream.log.log import Batch, Fetched, TopicPartition

Buffer = dict[TopicPartition, Fetched[Batch]]


@dataclass(slots=True)
class TaskIdling:
    """The waits of one sub-topology's tasks. A task waits when some of its topics have records and
    others are at their ends: for each of these `max_idle_ms` since it was first missed. It does not
    count as missed any more once it has brought records."""

    max_idle_ms: int
    next_at: int | None = None
    """When the next wait is over; None without any."""
    _missed: dict[TopicPartition, int] = field(default_factory=dict)
    """Since when each partition is waited for."""

    def held(
        self,
        buffer: Buffer[Batch],
        tasks: Iterable[Sequence[TopicPartition]],
        positions: Mapping[TopicPartition, int],
        now: int,
    ) -> Buffer[Batch]:
        """The `buffer` to run with, which has nothing of tasks that wait. `tasks`: the partitions
        of each. Of a task that does not wait, a partition with records counts as one that will have
        more: the wait for these begins when it is consumed."""
        self.next_at = None
        if self.max_idle_ms <= 0:
            return buffer
        found = dict(buffer)
        for partitions in tasks:
            reads = [buffer[at] for at in partitions if at in buffer]
            bringing = {read.topic for read in reads if read.count}
            if not bringing or len({read.topic for read in reads}) == 1:
                continue
            missing = [read for read in reads if read.topic not in bringing]
            if self._waits(missing, bringing, partitions, now):
                nothing = missing[0].batch
                found |= {at: Fetched(*at, nothing, 0, positions[at], True) for at in partitions}
            else:
                found |= {
                    (read.topic, read.partition): replace(read, end=False)
                    for read in reads
                    if read.count and read.end
                }
        return found

    def _waits(
        self,
        missing: Sequence[Fetched[Batch]],
        bringing: set[str],
        partitions: Iterable[TopicPartition],
        now: int,
    ) -> bool:
        for at in partitions:
            if at[0] in bringing:
                self._missed.pop(at, None)
        waiting = False
        for read in missing:
            over = self._missed.setdefault((read.topic, read.partition), now) + self.max_idle_ms
            if read.end and now < over:
                waiting = True
                self.next_at = over if self.next_at is None else min(self.next_at, over)
        return waiting

    def reset(self) -> None:
        """Note that the tasks are closed."""
        self._missed.clear()
        self.next_at = None

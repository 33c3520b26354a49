"""Whether tasks of other instances, whose rows come to tasks of this one, have caught up.

What they send comes in lanes, one for each sending task (`KernelSpec.lanes`). A lane that has
nothing more is believed to be at its end only while its sender is not behind: a join or a window
that went on without the rows of one who catches up would take them for late when they come.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Generic

from millstream.log.log import Batch, TopicPartition
from millstream.log.membership import Lag
from millstream.runtime.spec import QuerySpec


class RemoteUpstreams(Generic[Batch]):
    """The tasks of one query that are not open here, as far as they send to those that are.

    A task is behind while the group has not come as far, in all that it reads and in all that is
    read to make that, as the log had grown when its lag was asked for the time before.
    """

    def __init__(self, spec: QuerySpec[Batch]) -> None:
        self._spec = spec
        self._senders = {
            topic: _before(spec, topic) for executor in spec.executors for topic in executor.lanes
        }
        self._places: dict[str, frozenset[TopicPartition]] = {}
        """What the tasks read that send to a topic, directly or not, and are not open here."""
        self._all: frozenset[TopicPartition] = frozenset()
        self._behind: frozenset[TopicPartition] | None = None
        """None while it is not known yet."""
        self._ends: Mapping[TopicPartition, int] = {}
        self._next = 0

    def opened(self, owned: Collection[int]) -> None:
        """The tasks `owned` are open here from now on; of all others nothing is known."""
        self._behind, self._ends, self._next = None, {}, 0
        self._places = {
            topic: frozenset(
                topic_partition
                for index in senders
                for task in range(self._spec.executors[index].partitions)
                if task not in owned
                for topic_partition in self._spec.executors[index].topic_partitions(task)
            )
            for topic, senders in self._senders.items()
        }
        self._all = frozenset().union(*self._places.values())

    @property
    def watched(self) -> bool:
        """Whether tasks that are not open here wait for those that are, as these do for them."""
        return bool(self._all)

    def wanted(self, now: int) -> frozenset[TopicPartition]:
        """Of which partitions the lag is to be asked now."""
        return self._all if now >= self._next else frozenset()

    def told(self, lag: Lag, until: int) -> None:
        """Take an answer, which does `until` the next one is asked for."""
        self._next = until
        reached = lag.positions
        self._behind = frozenset(
            topic_partition
            for topic_partition, end in lag.ends.items()
            if reached.get(topic_partition, 0) < self._ends.get(topic_partition, end)
        )
        self._ends = lag.ends

    def behind(self, topic: str) -> bool:
        """Whether a task that is not open here may have rows for the topic that others wait for."""
        topic_partitions = self._places.get(topic)
        if not topic_partitions:
            return False
        return self._behind is None or not topic_partitions.isdisjoint(self._behind)


def _before(spec: QuerySpec[Batch], topic: str) -> frozenset[int]:
    """The sub-topologies whose rows come to a topic."""
    found: set[int] = set()
    wanted = {topic}
    while wanted:
        now = {index for index, one in enumerate(spec.executors) if wanted & {*one.outputs}} - found
        found |= now
        wanted = {name for index in now for name in spec.executors[index].inputs}
        wanted &= spec.repartitions
    return frozenset(found)

"""Determines whether tasks of other instances, whose rows come to tasks of this one, have caught
up.

Each sending task has its own channel (`ExecutorSpec.channels` and `senders`). An empty one counts
as ended only while its sender is not behind: otherwise a join or a window would go on without the
rows of a sender that catches up, and treat them as late when they arrive. Where idle windows close,
all other tasks of the query are watched, because all of its input must be idle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Generic

from millstream.log.log import Batch, Lag, TopicPartition
from millstream.runtime.spec import QuerySpec


class RemoteUpstreams(Generic[Batch]):
    """The tasks of one query that are not open here and send to tasks that are.

    A task is behind while the group's positions, in any of its direct and indirect inputs, have not
    reached the log ends of the previous lag response.
    """

    def __init__(self, spec: QuerySpec[Batch]) -> None:
        self._spec = spec
        self._senders = {
            topic: upstream_of(spec, topic)
            for executor in spec.executors
            for topic in (*executor.channels, *executor.senders)
        }
        self._places: dict[str, frozenset[TopicPartition]] = {}
        """What the remote tasks read that send to a topic, directly or indirectly."""
        self._all: frozenset[TopicPartition] = frozenset()
        self._behind: frozenset[TopicPartition] | None = None
        """None while unknown."""
        self._watches_all = spec.idle_window_close_ms > 0
        self.idle_since = 0
        """Since when the log ends have not moved."""
        self._ends: Mapping[TopicPartition, int] = {}
        self.next_at = 0
        """When to request the lag again."""

    def opened(self, owned: Collection[int]) -> None:
        """Note that the tasks `owned` are open here; the state of all others is unknown."""
        self._behind, self._ends, self.next_at = None, {}, 0
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
        if self._watches_all:
            self._all |= {
                topic_partition
                for executor in self._spec.executors
                for task in range(executor.partitions)
                if task not in owned
                for topic_partition in executor.topic_partitions(task)
            }

    @property
    def watched(self) -> bool:
        """Whether remote tasks and local tasks wait for each other."""
        return bool(self._all)

    def passed(
        self, positions: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]
    ) -> bool:
        """Whether other instances watch the query's positions, and these lie behind the committed
        ones although nothing was processed: only transaction markers were read."""
        if not self.watched:
            return False
        return any(at > committed.get(place, 0) for place, at in positions.items())

    def wanted(self, now: int) -> frozenset[TopicPartition]:
        """The partitions whose lag to request now."""
        return self._all if now >= self.next_at else frozenset()

    def look(
        self,
        lag: Callable[[Collection[TopicPartition]], Lag | None],
        now: int,
        interval_ms: int,
    ) -> None:
        """Check whether the remote tasks are behind, as often as `interval_ms` says. `lag`: see
        `Member`."""
        wanted = self.wanted(now)
        found = lag(wanted) if wanted else None
        if found is not None:
            self.told(found, now + interval_ms)

    def told(self, lag: Lag, until: int) -> None:
        """Take a response; the next one is requested at the time `until`."""
        self.next_at = until
        reached = lag.positions
        self._behind = frozenset(
            topic_partition
            for topic_partition, end in lag.ends.items()
            if reached.get(topic_partition, 0) < self._ends.get(topic_partition, end)
        )
        if self._ends != lag.ends:
            self.idle_since = until
        self._ends = lag.ends

    def idle(self, now: int) -> bool:
        """Whether the remote tasks had processed everything at the last response, which is not
        older than its interval."""
        return not self._all or (
            self._behind is not None and not self._behind and now < self.next_at
        )

    def behind(self, topic: str) -> bool:
        """Whether a remote task may have rows for the topic that local tasks wait for."""
        topic_partitions = self._places.get(topic)
        if not topic_partitions:
            return False
        return self._behind is None or not topic_partitions.isdisjoint(self._behind)


def upstream_of(spec: QuerySpec[Batch], topic: str) -> frozenset[int]:
    """The sub-topologies that write to a topic, directly or indirectly."""
    found: set[int] = set()
    wanted = {topic}
    while wanted:
        now = {index for index, one in enumerate(spec.executors) if wanted & {*one.outputs}} - found
        found |= now
        wanted = {name for index in now for name in spec.executors[index].inputs}
        wanted &= spec.repartitions
    return frozenset(found)

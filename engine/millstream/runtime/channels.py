"""What comes to a sub-topology from those before it in its query: in which order, and whether more
is on its way (ADR 19)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from dataclasses import replace
from itertools import product
from typing import Generic, Protocol

from millstream.log.log import Batch, Fetched, Log, TopicPartition
from millstream.runtime.remote_upstreams import RemoteUpstreams
from millstream.runtime.spec import ExecutorSpec
from millstream.runtime.tasks import Task
from millstream.runtime.watermark import Watermark


class Sender(Protocol):
    """A sub-topology whose rows come here."""

    @property
    def tasks(self) -> Mapping[int, Task]:
        """Those that are open in this process."""

    @property
    def watermark(self) -> Watermark:
        """How far it has handed on what they read."""


class Channels(Generic[Batch]):
    """The topics that a sub-topology reads of others of its query, those with lanes among them."""

    def __init__(self, spec: ExecutorSpec[Batch], elsewhere: RemoteUpstreams[Batch]) -> None:
        self.senders: Mapping[str, Sender] = {}
        """By the topic they send to."""
        self.together = False
        """Whether an instance that has all tasks sends what they make together, this one."""
        self._spec = spec
        self._elsewhere = elsewhere

    def bounded(self, fetched: Fetched[Batch]) -> Fetched[Batch]:
        """What was read, which is at its end only if nothing more is on its way."""
        sender = self.senders.get(fetched.topic)
        if sender is None or not fetched.end:
            return fetched
        lanes = self._spec.lanes.get(fetched.topic, 0)
        lane = fetched.partition // self._spec.partitions
        if self.together or not lanes or (lane if lanes == 1 else lane - 1) in sender.tasks:
            return sender.watermark.bound(fetched)
        if lane == 0 and lanes > 1:
            # Whoever had all tasks has them no more.
            return fetched
        return replace(fetched, end=False) if self._elsewhere.behind(fetched.topic) else fetched

    def older_first(
        self,
        tasks: Collection[int],
        buffer: MutableMapping[TopicPartition, Fetched[Batch]],
        behind: set[TopicPartition],
    ) -> None:
        """Put off what was sent apart while something is left that was sent together: that was
        before, be its rows later ones or not. `behind`: what was not read to its end."""
        for topic, task in product(self._spec.lanes, tasks):
            first = (topic, task)
            read = buffer.get(first)
            if read is None or not (read.count or first in behind):
                continue
            others = [
                topic_partition
                for topic_partition in self._apart(topic, task)
                if topic_partition in buffer and buffer[topic_partition].count
            ]
            if others:
                for topic_partition in others:
                    del buffer[topic_partition]
                buffer[first] = replace(read, end=False)
                behind.add(first)

    def drained(
        self, log: Log[Batch], tasks: Collection[int], positions: Mapping[TopicPartition, int]
    ) -> bool:
        """Whether nothing is left of what was sent apart to these tasks."""
        return all(
            log.written_end(*topic_partition) <= positions[topic_partition]
            for topic, task in product(self._spec.lanes, tasks)
            for topic_partition in self._apart(topic, task)
        )

    def _apart(self, topic: str, task: int) -> Iterator[TopicPartition]:
        _together, *others = self._spec.places_in(topic, task)
        return iter(others)

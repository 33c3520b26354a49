"""Orders the input that a sub-topology receives from earlier sub-topologies of its query, and
determines whether more is pending (ADR 19)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, MutableMapping
from dataclasses import replace
from itertools import product
from typing import Generic, Protocol

from millstream.log.log import Batch, Fetched, Log, SenderEnds, TopicPartition
from millstream.model.event_time import END, NEVER
from millstream.runtime.remote_upstreams import RemoteUpstreams
from millstream.runtime.spec import ExecutorSpec
from millstream.runtime.tasks import Task
from millstream.runtime.watermark import Watermark


class Sender(Protocol):
    """A sub-topology whose rows are sent here."""

    @property
    def tasks(self) -> Mapping[int, Task]:
        """The tasks that are open in this process."""

    @property
    def watermark(self) -> Watermark:
        """The event time up to which it has forwarded its input."""


class Channels(Generic[Batch]):
    """The topics that a sub-topology reads of other sub-topologies of its query, including those
    with channels."""

    def __init__(self, spec: ExecutorSpec[Batch], remote_upstreams: RemoteUpstreams[Batch]) -> None:
        self.senders: Mapping[str, Sender] = {}
        """By the topic that they write to."""
        self.together = False
        """Whether an instance that holds all tasks, this one, sends their output together."""
        self._spec = spec
        self._remote_upstreams = remote_upstreams

    def bounded(self, fetched: Fetched[Batch]) -> Fetched[Batch]:
        """The fetched records, at their end only if upstream has nothing more to send."""
        sender = self.senders.get(fetched.topic)
        if fetched.senders is not None:
            return self._ended(fetched, fetched.senders, sender)
        if sender is None or not fetched.end:
            return fetched
        channels = self._spec.channels.get(fetched.topic, 0)
        channel = fetched.partition // self._spec.partitions
        if (
            self.together
            or not channels
            or (channel if channels == 1 else channel - 1) in sender.tasks
        ):
            return sender.watermark.bound(fetched)
        if channel == 0 and channels > 1:
            # The instance that held all tasks no longer holds them.
            return fetched
        return (
            replace(fetched, end=False) if self._remote_upstreams.behind(fetched.topic) else fetched
        )

    def whole(self, fetched: Fetched[Batch]) -> Fetched[Batch]:
        """The fetched records of a partition whose senders have sent everything before its end."""
        return self._ended(fetched, fetched.senders, None) if fetched.senders else fetched

    def _ended(
        self, fetched: Fetched[Batch], ends: SenderEnds, sender: Sender | None
    ) -> Fetched[Batch]:
        """How far each sender has come. Where records of the other kind follow, nothing of any
        sender is missing before these; other inputs wait nevertheless."""
        until = END if sender is None else sender.watermark.until
        if fetched.count and ends.joint:
            # Nothing that senders send separately comes before these.
            together = until if fetched.end and (self.together or sender is None) else NEVER
            ends = replace(ends, together=together, here=END, elsewhere=END)
            return _up_to(together, replace(fetched, senders=ends))
        if ends.barrier:
            return replace(
                fetched, end=False, senders=replace(ends, together=END, here=END, elsewhere=END)
            )
        if not ends.complete:
            return fetched
        behind = sender is not None and self._remote_upstreams.behind(fetched.topic)
        local = frozenset(sender.tasks) if sender is not None else frozenset[int]()
        remote = len(local) < self._spec.senders[fetched.topic]
        together = until if self.together else END
        ends = replace(
            ends, local=local, together=together, here=until, elsewhere=NEVER if behind else END
        )
        reached = min(together, until if local else END, ends.elsewhere if remote else END)
        if ends.limits:
            return replace(fetched, senders=ends)
        return _up_to(reached, replace(fetched, senders=ends))

    def older_first(
        self,
        tasks: Collection[int],
        buffer: MutableMapping[TopicPartition, Fetched[Batch]],
        behind: set[TopicPartition],
    ) -> None:
        """Hold back what was sent through separate channels while records sent together remain:
        those were sent earlier, whatever their time. `behind`: partitions that were not read to
        their end."""
        for topic, task in product(self._spec.channels, tasks):
            first = (topic, task)
            read = buffer.get(first)
            if read is None or not (read.count or first in behind):
                continue
            if read.senders is not None and not (read.senders.joint or read.senders.barrier):
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
        """Whether these tasks have consumed everything that was sent through separate channels."""
        return all(
            log.written_end(*topic_partition) <= positions[topic_partition]
            for topic, task in product(self._spec.channels, tasks)
            if topic in self.senders
            for topic_partition in self._apart(topic, task)
        )

    def _apart(self, topic: str, task: int) -> Iterator[TopicPartition]:
        _together, *others = self._spec.places_in(topic, task)
        return iter(others)


def _up_to(until: int, fetched: Fetched[Batch]) -> Fetched[Batch]:
    """Everything up to a time has arrived. Where that is all, `until` stays unset: a caller that
    takes the end back must not find that nothing is missing."""
    return replace(fetched, end=True) if until == END else replace(fetched, end=False, until=until)

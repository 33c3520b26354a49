"""A query as sub-topologies joined by repartition topics: the runtime creates tasks from it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from millstream.catalog.source import Source
from millstream.model.schema import Schema
from millstream.plan.nodes import Node, Read, Repartition

_OF_A_QUERY = re.compile(
    "(.+)-(?:[0-9]+-(?:repartition|subscription|response|changelog)|leases)", re.DOTALL
)


def owner_of(topic: str, prefix: str) -> str | None:
    """The id of the query that an internal topic belongs to; None where it belongs to none. On
    Kafka, that may be the topic with which instances share its tasks."""
    if not topic.startswith(prefix):
        return None
    found = _OF_A_QUERY.fullmatch(topic, len(prefix))
    return found[1] if found else None


@dataclass(frozen=True, slots=True)
class SourceInput:
    """Input from the topic of a stream or table, decoded with its formats.

    `read` is the plan node; the program sees the relation `in_<index>` with its schema.
    """

    read: Read
    topic: str


@dataclass(frozen=True, slots=True)
class RepartitionInput:
    """Input from a repartition topic of ours: Arrow batches with the repartition's schema.

    `channels`: the number of exchange channels. Output of task s for task t is on partition
    (s + 1) * tasks + t, in the order of event time. While one instance has all tasks and merges
    their output, it is on partition t, which is the first channel. 1: there is only one sender; 0:
    the output of all senders is on partition t.

    `senders`: the number of sending tasks, if records on partition t say which of them have sent
    their rows, so that the rows of each are a channel. 0: they do not, so the output is mixed.
    """

    repartition: Repartition
    topic: str
    schema: Schema
    channels: int = 0
    senders: int = 0


Input = SourceInput | RepartitionInput


@dataclass(frozen=True, slots=True)
class SubTopology:
    """The work of one kind of task: `root` (a Write, Deliver or Repartition) over its inputs.

    In the tree below `root`, a `Repartition` below the root represents its `RepartitionInput` and a
    `Read` its `SourceInput`; `inputs` lists them in order, left to right. Its tasks are
    `<index>_<partition>`, one per partition. `output` is the topic that `root` writes to (None for
    Deliver); for a Repartition root its partition count is that of the reading sub-topology.
    """

    index: int
    inputs: tuple[Input, ...]
    root: Node
    partitions: int
    output: str | None
    changelog: str | None
    """Topic of the state changes; None when there is no state."""


def channels_of(sub: SubTopology) -> dict[str, int]:
    """The topics that a sub-topology reads through channels, with the number of channels of each of
    its tasks."""
    inner = (item for item in sub.inputs if isinstance(item, RepartitionInput))
    return {item.topic: item.channels for item in inner if item.channels}


def senders_of(sub: SubTopology) -> dict[str, int]:
    """The topics that a sub-topology reads whose records say who has sent their rows, with the
    number of sending tasks."""
    inner = (item for item in sub.inputs if isinstance(item, RepartitionInput))
    return {item.topic: item.senders for item in inner if item.senders}


def with_one_more_channel(sub: SubTopology) -> SubTopology:
    """The same with one more channel behind the others, where there are several. It has partitions
    of its own."""

    def widened(item: Input) -> Input:
        if isinstance(item, SourceInput) or (item.channels < 2 and not item.senders):
            return item
        return replace(item, channels=max(1, item.channels) + 1)

    return replace(sub, inputs=tuple(widened(item) for item in sub.inputs))


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic of the query: its kind is `repartition` (also of the subscriptions and
    responses of a foreign key join) or `changelog`. `tasks` read it, each through this many
    `channels`. `senders`: as of `RepartitionInput`.
    """

    name: str
    tasks: int
    kind: str
    channels: int = 0
    senders: int = 0

    @property
    def partitions(self) -> int:
        """The total number of partitions."""
        return self.tasks * max(1, self.channels)


@dataclass(frozen=True, slots=True)
class Topology:
    """A whole persistent or transient query."""

    query_id: str
    subtopologies: tuple[SubTopology, ...]
    internal_topics: tuple[InternalTopic, ...]
    sources: tuple[Source, ...]

    def without_changelogs(self) -> Topology:
        """The same query, for use where its state is not read again."""
        return replace(
            self,
            subtopologies=tuple(replace(sub, changelog=None) for sub in self.subtopologies),
            internal_topics=tuple(t for t in self.internal_topics if t.kind != "changelog"),
        )

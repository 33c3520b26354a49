"""Cuts a logical plan into sub-topologies where rows move to another partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from millstream.catalog import wordings
from millstream.catalog.source import Source
from millstream.model.errors import StatementError
from millstream.plan.nodes import Deliver, Node, Read, Repartition, Write, inputs, is_stateful
from millstream.topology.foreign_key import RESPONSE, lowered
from millstream.topology.topology import (
    Input,
    InternalTopic,
    RepartitionInput,
    SourceInput,
    SubTopology,
    Topology,
)

Partitions = Callable[[str], int]
"""The number of partitions of an existing topic."""


@dataclass(frozen=True, slots=True)
class ChannelLayout:
    """Where the channels of a repartition topic are: see `RepartitionInput`. Without any numbers,
    the output of all senders is mixed."""

    channels: int = 0
    senders: int = 0


LayoutOf = Callable[[str, int, int], ChannelLayout]
"""The layout of a repartition topic of a name, between some number of sending and of reading tasks.
"""


def mixed(_topic: str, _senders: int, _readers: int) -> ChannelLayout:
    """No channels: where one process has all tasks, their output is ordered anyway."""
    return ChannelLayout()


def labelled(_topic: str, senders: int, _readers: int) -> ChannelLayout:
    """A channel for each sender, on the partition of the receiver: each record says whose rows it
    holds."""
    return ChannelLayout(senders=senders) if senders > 1 else ChannelLayout(channels=1)


def partition_per_channel(_topic: str, senders: int, _readers: int) -> ChannelLayout:
    """A channel for each sender, on a partition of its own for each receiver: how topics of up to
    8 tasks were laid out before records had labels."""
    return ChannelLayout(channels=channel_per_sender(senders))


def channel_per_sender(senders: int) -> int:
    """The channels of a topic with this many sending tasks: one for each, and one for an instance
    that has all of them."""
    return senders + 1 if senders > 1 else 1


def split(
    node: Write | Deliver,
    query_id: str,
    *,
    partitions: Partitions,
    prefix: str = "",
    layout: LayoutOf = mixed,
) -> Topology:
    """The topology of a plan: one sub-topology for each part between repartitions.

    Sub-topologies are numbered from the sources to the sink. Internal topics are named
    `<prefix><query_id>-<sub-topology>-repartition|changelog`, those of foreign key joins
    `...-subscription|response`: a repartition topic after the sub-topology that writes it. Only
    sub-topologies with state read through channels: the others process rows as they arrive. Raises
    StatementError when the sources of one sub-topology differ in their number of partitions.
    """
    counts = _Counts(partitions, layout)
    subtopologies = tuple(_cut(lowered(node), f"{prefix}{query_id}", counts, 0))
    return Topology(
        query_id,
        subtopologies,
        tuple(_internal_topics(subtopologies)),
        tuple(_sources(subtopologies)),
    )


@dataclass(frozen=True, slots=True)
class _Counts:
    partitions: Partitions
    layout: LayoutOf


def _cut(root: Node, name: str, counts: _Counts, first: int) -> list[SubTopology]:
    """The sub-topologies of a tree, its own one last; numbers start at `first`."""
    before: list[SubTopology] = []
    found: list[Input] = []
    for leaf in _leaves(root):
        match leaf:
            case Read(source):
                found.append(SourceInput(leaf, source.topic))
            case Repartition():
                before += _cut(leaf, name, counts, first + len(before))
                topic = str(before[-1].output)
                found.append(RepartitionInput(leaf, topic, leaf.schema))
    count = _partitions(root, found, before, counts.partitions)
    index = first + len(before)
    stateful = _has_state(root)
    if stateful:
        found = [_in_channels(item, before, count, counts.layout) for item in found]
    own = SubTopology(
        index,
        tuple(found),
        root,
        count,
        _output(root, f"{name}-{index}"),
        f"{name}-{index}-changelog" if stateful else None,
    )
    return [*before, own]


def _in_channels(item: Input, before: list[SubTopology], readers: int, layout: LayoutOf) -> Input:
    if isinstance(item, SourceInput):
        return item
    senders = next(sub.partitions for sub in before if sub.output == item.topic)
    found = layout(item.topic, senders, readers)
    return replace(item, channels=found.channels, senders=found.senders)


def _leaves(root: Node) -> Iterator[Read | Repartition]:
    for below in inputs(root):
        if isinstance(below, Read | Repartition):
            yield below
        else:
            yield from _leaves(below)


def _partitions(
    root: Node, found: list[Input], before: list[SubTopology], partitions: Partitions
) -> int:
    """Sources determine the partition count; without any, a repartition topic has as many as its
    writer."""
    counts: dict[str, int] = {}
    for item in found:
        if isinstance(item, SourceInput):
            counts[item.read.source.name] = partitions(item.topic)
        elif item.repartition.topic == RESPONSE:
            home = _asking(item, before)
            counts |= {source.name: home.partitions for source in _sources((home,))}
    if not counts:
        topics = {item.topic for item in found}
        return max(sub.partitions for sub in before if sub.output in topics)
    if len(set(counts.values())) > 1:
        raise _mismatch(root, found, counts, before, partitions)
    return next(iter(counts.values()))


def _mismatch(
    root: Node,
    found: list[Input],
    counts: dict[str, int],
    before: list[SubTopology],
    partitions: Partitions,
) -> StatementError:
    """The error for sources with different numbers of partitions. ksqlDB names the leftmost source
    of the joins, which may be above a repartition."""
    left, count = next(iter(counts.items()))
    first = _leftmost(found[0], before)
    if partitions(first.source.topic) == count:
        left = first.source.name
    right = next(name for name, other in counts.items() if other != count)
    aliases = {read.source.name: _alias(read) for read in (first, *_reads(found))}
    ours, theirs = aliases.get(left, left), aliases.get(right, right)
    hint = "Write one of them to a topic of as many: CREATE … WITH (PARTITIONS = …) AS SELECT."
    apart = _meeting(root, counts)
    if len(inputs(apart)) > 1 and not is_stateful(apart):
        return wordings.PARTITIONS_OF_BRANCHES(
            left=ours, right=theirs, ours=count, theirs=counts[right], hint=hint
        )
    return wordings.PARTITIONS_DIFFER(
        left=ours, right=theirs, ours=count, theirs=counts[right], hint=hint
    )


def _meeting(node: Node, counts: dict[str, int]) -> Node:
    """The lowest node that reads sources with different numbers of partitions."""
    for below in inputs(node):
        leaves = (leaf for leaf in _leaves(below) if isinstance(leaf, Read))
        if len({counts[leaf.source.name] for leaf in leaves}) > 1:
            return _meeting(below, counts)
    return node


def _reads(found: Iterable[Input]) -> Iterator[Read]:
    return (item.read for item in found if isinstance(item, SourceInput))


def _alias(read: Read) -> str:
    return read.prefix.removesuffix("_") or read.source.name


def _leftmost(item: Input, before: list[SubTopology]) -> Read:
    """The first source of an input."""
    while isinstance(item, RepartitionInput):
        topic = item.topic
        item = next(sub for sub in before if sub.output == topic).inputs[0]
    return item.read


def _asking(response: RepartitionInput, before: list[SubTopology]) -> SubTopology:
    """The sub-topology of the left table, to whose partitions the responses go."""
    writers = {sub.output: sub for sub in before}
    return writers[writers[response.topic].inputs[0].topic]


def _output(root: Node, name: str) -> str | None:
    match root:
        case Write():
            return root.topic
        case Repartition():
            return f"{name}-{root.topic}"
        case _:
            return None


def _has_state(root: Node) -> bool:
    """Whether any node from the root to the leaves has state. A repartition is the root of another
    sub-topology."""
    below = (node for node in inputs(root) if not isinstance(node, Repartition))
    return is_stateful(root) or any(map(_has_state, below))


def _internal_topics(subtopologies: tuple[SubTopology, ...]) -> Iterator[InternalTopic]:
    for sub in subtopologies:
        for item in sub.inputs:
            if isinstance(item, RepartitionInput):
                yield InternalTopic(
                    item.topic, sub.partitions, "repartition", item.channels, item.senders
                )
        if sub.changelog is not None:
            yield InternalTopic(sub.changelog, sub.partitions, "changelog")


def _sources(subtopologies: Iterable[SubTopology]) -> Iterator[Source]:
    seen: set[str] = set()
    for sub in subtopologies:
        for item in sub.inputs:
            if isinstance(item, SourceInput) and item.read.source.name not in seen:
                seen.add(item.read.source.name)
                yield item.read.source

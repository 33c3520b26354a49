"""The nodes of a topology of processors, and its parts that are not connected."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.processors.async_processor import AsyncProcessor
from millstream.processors.batches import BatchProcessor
from millstream.processors.processor import Processor, Record

AnyProcessor = Processor | BatchProcessor | AsyncProcessor
Extractor = Callable[[Record], dt.datetime]
"""Returns the event time of a record."""
Partitioner = Callable[[Any, Mapping[str, Any]], int | None]
"""Returns, for the key and the value of a row, the number of its partition."""


@dataclass(frozen=True, slots=True)
class SourceNode:
    """Reads topics. `key` and `value`: their columns in SQL; None where `topics` are streams."""

    name: str
    topics: tuple[str, ...]
    key: str | None
    value: str | None
    timestamp: str | Extractor | None
    format: str | None
    partitions: int | None
    parents: tuple[str, ...] = ()

    @property
    def declares(self) -> bool:
        """Whether it says which columns its topic has."""
        return self.key is not None or self.value is not None


@dataclass(frozen=True, slots=True)
class ProcessorNode:
    """Processes what its parents forward."""

    name: str
    supplier: Callable[[], AnyProcessor]
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SinkNode:
    """Writes what its parents forward to a topic."""

    name: str
    topic: str
    parents: tuple[str, ...]
    format: str | None
    partitions: int | None
    partitioner: str | Partitioner | None = None


NodeOf = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that are connected, in the order in which they were added: one query."""

    nodes: tuple[NodeOf, ...]

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        """Those that read."""
        return tuple(node for node in self.nodes if isinstance(node, SourceNode))

    @property
    def processors(self) -> tuple[ProcessorNode, ...]:
        """Those that process."""
        return tuple(node for node in self.nodes if isinstance(node, ProcessorNode))

    @property
    def sinks(self) -> tuple[SinkNode, ...]:
        """Those that write."""
        return tuple(node for node in self.nodes if isinstance(node, SinkNode))

    def children(self, name: str) -> tuple[NodeOf, ...]:
        """The nodes below a node."""
        return children(self.nodes, name)


def children(nodes: Iterable[NodeOf], name: str) -> tuple[NodeOf, ...]:
    """The nodes below a node."""
    return tuple(node for node in nodes if name in node.parents)


def connected_parts(
    nodes: Iterable[NodeOf], shared: Iterable[Sequence[str]] = ()
) -> tuple[Part, ...]:
    """The connected parts, in the order of their first nodes. `shared`: names of processors that
    have a store in common, which connects them too."""
    listed = tuple(nodes)
    group = {node.name: node.name for node in listed}
    for first, second in _links(listed, shared):
        old, new = group[second], group[first]
        group = {name: new if of == old else of for name, of in group.items()}
    made: dict[str, list[NodeOf]] = {}
    for node in listed:
        made.setdefault(group[node.name], []).append(node)
    return tuple(Part(tuple(each)) for each in made.values())


def _links(nodes: Sequence[NodeOf], shared: Iterable[Sequence[str]]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        yield from ((parent, node.name) for parent in node.parents)
    for users in shared:
        yield from ((users[0], user) for user in users[1:])

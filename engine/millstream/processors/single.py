"""Parts of a topology with a single processor, which takes many records at a time: it is
asynchronous, or one of batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.model.errors import StatementError
from millstream.processors.async_processor import AsyncProcessor
from millstream.processors.batches import BatchProcessor
from millstream.processors.composed import Place
from millstream.processors.nodes import (
    AnyProcessor,
    NodeOf,
    Part,
    ProcessorNode,
    SinkNode,
    SourceNode,
)


@dataclass(frozen=True, slots=True)
class SingleProcessor:
    """A part of sources, one processor and one sink, as the supplier of that processor. `output`:
    the text of its columns."""

    part: Part
    node: ProcessorNode
    output: str

    def __call__(self) -> AnyProcessor:
        """A new instance."""
        return self.node.supplier()

    @property
    def places(self) -> Mapping[str, Place]:
        """See `Composition`."""
        return {sink.name: Place(0, None) for sink in self.part.sinks}


def single_processor(
    part: Part, made: Mapping[str, AnyProcessor], stores: Mapping[str, tuple[str, ...]]
) -> SingleProcessor | None:
    """The part of a processor that takes many records at a time; None if no processor of it does.
    `made`: an instance of each; `stores`: the shared ones with their processors.

    Such a processor has its part for itself, because the others take one record after another.
    Raises StatementError for one that has not."""
    for node in part.processors:
        match made[node.name]:
            case AsyncProcessor(output=output):
                what = "is asynchronous"
            case BatchProcessor(output=output):
                what = "is one of batches"
            case _:
                continue
        if (why := _obstacle(part, node, stores)) is not None:
            raise StatementError(
                f"Processor {node.name} {what}, and {why}: it reads sources and writes one sink",
                hint="Write to a topic with add_sink before it or behind it, and read that with"
                " add_source.",
            )
        return SingleProcessor(part, node, output)
    return None


def _obstacle(part: Part, node: ProcessorNode, stores: Mapping[str, tuple[str, ...]]) -> str | None:
    """Why a processor has not the part for itself."""
    shared = next((name for name, users in stores.items() if node.name in users), None)
    if shared is not None:
        return f"it shares the store {shared}"
    custom = next(filter(None, map(_function, part.nodes)), None)
    if custom is not None:
        return custom
    others = [each.name for each in part.nodes if not _serves(each, part, node)]
    if others:
        return f"it is connected to {', '.join(others)}"
    return None if len(part.sinks) == 1 else f"it has {len(part.sinks)} sinks"


def _function(node: NodeOf) -> str | None:
    """The function of a node that is called for each record, as the reason of a refusal."""
    match node:
        case SourceNode(name, timestamp=timestamp) if callable(timestamp):
            return f"source {name} has a function as timestamp"
        case SinkNode(name, partitioner=partitioner) if callable(partitioner):
            return f"sink {name} has a function as partitioner"
        case _:
            return None


def _serves(each: NodeOf, part: Part, node: ProcessorNode) -> bool:
    """Whether a node is the processor, or reads or writes for it alone."""
    match each:
        case SourceNode(name):
            return part.children(name) == (node,)
        case SinkNode(parents=parents):
            return parents == (node.name,)
        case ProcessorNode():
            return each is node

"""The one processor of a part that takes many records at a time: asynchronous, or of batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millstream.model.errors import StatementError
from millstream.processors.async_processor import AsyncProcessor
from millstream.processors.batches import BatchProcessor
from millstream.processors.composed import Place
from millstream.processors.nodes import AnyProcessor, Part, ProcessorNode


@dataclass(frozen=True, slots=True)
class Lone:
    """A part of sources, one processor and one sink, as the supplier of that processor."""

    part: Part
    node: ProcessorNode

    def __call__(self) -> AnyProcessor:
        """A new instance."""
        return self.node.supplier()

    @property
    def places(self) -> Mapping[str, Place]:
        """See `Composition`."""
        return {sink.name: Place(0, None) for sink in self.part.sinks}


def lone(part: Part, stores: Mapping[str, tuple[str, ...]]) -> tuple[Lone, str] | None:
    """The part as that of a processor that takes many records at a time, and the text of its
    output; None if it has none. `stores`: the shared ones with their processors.

    Such a processor has its part for itself, because the others take one record after another.
    Raises StatementError for one that has not."""
    for node in part.processors:
        made = node.supplier()
        if not isinstance(made, BatchProcessor | AsyncProcessor):
            continue
        what = "is asynchronous" if isinstance(made, AsyncProcessor) else "is one of batches"
        others = [each.name for each in part.nodes if not _belongs(each.name, part, node)]
        users = next((name for name, used in stores.items() if node.name in used), None)
        if others or users is not None or len(part.sinks) != 1:
            why = (
                f"it shares the store {users}"
                if users is not None
                else f"it is connected to {', '.join(others)}"
                if others
                else f"it has {len(part.sinks)} sinks"
            )
            raise StatementError(
                f"Processor {node.name} {what}, and {why}: it reads sources and writes one sink",
                hint="Write to a topic with add_sink before it or behind it, and read that with"
                " add_source.",
            )
        return Lone(part, node), made.output
    return None


def _belongs(name: str, part: Part, node: ProcessorNode) -> bool:
    """Whether a node of the part is the processor, reads for it alone, or writes for it alone."""
    if name == node.name:
        return True
    if any(name == sink.name for sink in part.sinks):
        return next(sink for sink in part.sinks if sink.name == name).parents == (node.name,)
    return name in node.parents and part.children(name) == (node,)

"""A topology of processors as text and as diagrams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import assert_never

from millstream.processors.nodes import (
    NodeOf,
    ProcessorNode,
    SinkNode,
    SourceNode,
    children,
    connected_parts,
)

_SHAPES = {SourceNode: ("([", "])"), ProcessorNode: ("[", "]"), SinkNode: ("[/", "/]")}
_DOT_SHAPES = {SourceNode: "cylinder", ProcessorNode: "box", SinkNode: "cylinder"}


def text(nodes: Iterable[NodeOf], stores_of: Callable[[str], Sequence[str]]) -> str:
    """Each part with its nodes, their parents (<--) and children (-->)."""
    listed = tuple(nodes)
    shared = _sharing(listed, stores_of)
    lines = ["Topology"]
    for number, part in enumerate(connected_parts(listed, shared)):
        lines.append(f"  Sub-topology {number}")
        for node in part.nodes:
            lines += _described(node, listed, stores_of)
    return "\n".join(lines)


def _sharing(nodes: Sequence[NodeOf], stores_of: Callable[[str], Sequence[str]]) -> list[list[str]]:
    users: dict[str, list[str]] = {}
    for node in nodes:
        for store in stores_of(node.name):
            users.setdefault(store, []).append(node.name)
    return list(users.values())


def _described(
    node: NodeOf, nodes: Sequence[NodeOf], stores_of: Callable[[str], Sequence[str]]
) -> Iterator[str]:
    match node:
        case SourceNode():
            what = "topic" if node.declares else "stream or topic"
            yield f"    Source {node.name} ({what}: {', '.join(node.topics)})"
        case ProcessorNode():
            stores = stores_of(node.name)
            own = f" (shared stores: {', '.join(stores)})" if stores else ""
            yield f"    Processor {node.name}{own}"
        case SinkNode():
            yield f"    Sink {node.name} (topic: {node.topic})"
        case _:
            assert_never(node)
    if node.parents:
        yield f"      <-- {', '.join(node.parents)}"
    if below := children(nodes, node.name):
        yield f"      --> {', '.join(child.name for child in below)}"


def mermaid(nodes: Iterable[NodeOf]) -> str:
    """A flow chart in the language of Mermaid."""
    listed = tuple(nodes)
    lines = ["flowchart TD"]
    for number, node in zip(_numbers(listed), listed, strict=True):
        opened, closed = _SHAPES[type(node)]
        lines.append(f'  {number}{opened}"{_label(node, "<br>")}"{closed}')
    lines += (f"  {above} --> {below}" for above, below in _arrows(listed))
    return "\n".join(lines)


def graphviz(nodes: Iterable[NodeOf]) -> str:
    """A graph in the language of Graphviz."""
    listed = tuple(nodes)
    lines = ["digraph topology {"]
    for number, node in zip(_numbers(listed), listed, strict=True):
        label = _label(node, "\\n")
        lines.append(f'  {number} [shape={_DOT_SHAPES[type(node)]}, label="{label}"];')
    lines += (f"  {above} -> {below};" for above, below in _arrows(listed))
    return "\n".join([*lines, "}"])


def _numbers(nodes: Sequence[NodeOf]) -> list[str]:
    """A name for each node that is no word of the language of a diagram."""
    return [f"n{number}" for number in range(len(nodes))]


def _arrows(nodes: Sequence[NodeOf]) -> Iterator[tuple[str, str]]:
    numbers = dict(zip((node.name for node in nodes), _numbers(nodes), strict=True))
    for node in nodes:
        yield from ((numbers[parent], numbers[node.name]) for parent in node.parents)


def _label(node: NodeOf, line_break: str) -> str:
    match node:
        case SourceNode(name, topics):
            below = ", ".join(topics)
        case SinkNode(name, topic):
            below = topic
        case ProcessorNode(name):
            below = ""
        case _:
            assert_never(node)
    return name if below in ("", name) else f"{name}{line_break}{_escaped(below)}"


def _escaped(topic: str) -> str:
    """A name of a user in a label between double quotes."""
    return topic.replace("\\", "").replace('"', "'").replace("<", "").replace("\n", " ")

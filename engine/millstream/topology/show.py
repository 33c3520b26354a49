"""A topology as text, in the manner of Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.plan.nodes import Node, Read, Repartition, inputs
from millstream.plan.show import describe
from millstream.topology.topology import Input, SourceInput, SubTopology, Topology


def show_topology(topology: Topology) -> str:
    """Sub-topologies with their inputs, steps, outputs and the internal topics between them."""
    lines = [f"Topology {topology.query_id}"]
    for sub in topology.subtopologies:
        lines += _subtopology(sub)
    if topology.internal_topics:
        lines.append("  Internal topics:")
    lines += [
        f"    {topic.name} ({topic.kind}, partitions: {topic.partitions})"
        for topic in topology.internal_topics
    ]
    return "\n".join(lines)


def _subtopology(sub: SubTopology) -> Iterator[str]:
    yield f"  Sub-topology: {sub.index} (partitions: {sub.partitions})"
    steps = list(_steps(sub.root))
    numbers = {id(node): f"{sub.index}-{position:02}" for position, node in enumerate(steps)}
    following = {id(below): node for node in steps for below in inputs(node)}
    leaves = iter(sub.inputs)
    for node in steps:
        name = f"{type(node).__name__.upper()}-{numbers[id(node)]}"
        after = following.get(id(node))
        target = sub.output or "client"
        if after is not None:
            target = f"{type(after).__name__.upper()}-{numbers[id(after)]}"
        leaf = node is not sub.root and isinstance(node, Read | Repartition)
        yield from _step(name, target, _input(next(leaves)) if leaf else describe(node), leaf)
    if sub.changelog is not None:
        yield f"    State: {sub.changelog}"


def _step(name: str, target: str, text: str, leaf: bool) -> Iterator[str]:
    yield f"    {'Source' if leaf else 'Step'}: {name} ({text})"
    yield f"      --> {target}"


def _input(item: Input) -> str:
    if isinstance(item, SourceInput):
        return f"topics: [{item.topic}], {describe(item.read)}"
    return f"topics: [{item.topic}]"


def _steps(root: Node) -> Iterator[Node]:
    """The steps of a sub-topology, inputs first, in the order of its `inputs`."""
    for below in inputs(root):
        if isinstance(below, Read | Repartition):
            yield below
        else:
            yield from _steps(below)
    yield root

"""Collects the expressions of a plan, to register their functions with DuckDB."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.model.expressions import Expression
from millstream.plan.nodes import (
    Aggregate,
    Filter,
    Flatten,
    Node,
    Project,
    Repartition,
    inputs,
)


def node_expressions(node: Node) -> Iterator[Expression]:
    """All expressions of a plan."""
    match node:
        case Filter():
            yield node.predicate
        case Project():
            yield from node.expressions
        case Flatten():
            yield from node.calls
        case Repartition():
            yield from (named.expression for named in node.keys)
        case Aggregate():
            yield from (a for _, call in node.aggregates for a in call.arguments)
    for below in inputs(node):
        yield from node_expressions(below)

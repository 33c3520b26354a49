"""Collects the expressions of a plan, to register their functions with DuckDB."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.model.expressions import Expression
from millstream.plan.nodes import Node, inputs, own_expressions


def node_expressions(node: Node) -> Iterator[Expression]:
    """All expressions of a plan."""
    yield from own_expressions(node)
    for below in inputs(node):
        yield from node_expressions(below)

"""The shape of trees: chains of ANDs and ORs, and depth."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from millstream_parser.expressions import CHAIN

__all__ = ["CHAIN", "chained", "depth_of"]


def chained(node: type[exp.Expression], operands: Sequence[exp.Expression]) -> exp.Expression:
    """`a AND b AND …` as the parser reads it: a long chain becomes a balanced tree."""
    if len(operands) > CHAIN:
        middle = len(operands) // 2
        operands = [chained(node, operands[:middle]), chained(node, operands[middle:])]
    tree = operands[0]
    for right in operands[1:]:
        tree = node(this=tree, expression=right)
    return tree


def depth_of(tree: exp.Expression, most: int) -> int:
    """How deep a tree is, or more than `most` if it is deeper. Does not recurse."""
    level, deepest = [tree], 0
    while level and deepest <= most:
        deepest += 1
        level = [child for node in level for child in node.iter_expressions()]
    return deepest

"""Several relations as one."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.plan.nodes import Merge, Node


def merged(branches: Sequence[Node]) -> Node:
    """Relations with the same columns as one: a balanced tree, because a deep one exhausts the
    stack."""
    if len(branches) == 1:
        return branches[0]
    middle = (len(branches) + 1) // 2
    left, right = merged(branches[:middle]), merged(branches[middle:])
    return Merge(left, right, left.schema)

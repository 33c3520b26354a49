"""Which deletions of a table's rows say whether the row was there.

A cache between two commits follows Kafka Streams: where the row was not there at the last commit
and is not there at this one, nothing is sent. So it must know of each row whether it was there.
"""

from __future__ import annotations

from millstream.plan.nodes import Node, Project, Read, SubscriptionResolve, TableTableJoin


def pairs_on_demand(node: Node) -> bool:
    """Whether the node deletes rows and tells that they were there only if asked for old rows."""
    match node:
        case Project():
            return pairs_on_demand(node.input)
        case Read():
            return node.materialised
        case TableTableJoin() | SubscriptionResolve():
            return True
        case _:
            # Filters have asked, aggregations delete sessions alone, which they know.
            return False


def knows_what_was_there(node: Node) -> bool:
    """Whether a deletion of nothing can be told from one of a row. A table that is read without
    being kept passes tombstones on as they come."""
    match node:
        case Project():
            return knows_what_was_there(node.input)
        case Read():
            return node.materialised
        case _:
            return True

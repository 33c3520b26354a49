"""Determines which deletions of a table's rows tell whether the row existed.

A cache between two commits follows Kafka Streams: if a row existed neither at the last commit nor
at this one, nothing is sent. So each change must tell whether the row existed.
"""

from __future__ import annotations

from millstream.plan.nodes import Node, Project, Read, SubscriptionResolve, TableTableJoin


def pairs_on_demand(node: Node) -> bool:
    """Whether the node deletes rows and marks existing ones only if old rows are requested."""
    match node:
        case Project():
            return pairs_on_demand(node.input)
        case Read():
            return node.materialised
        case TableTableJoin() | SubscriptionResolve():
            return True
        case _:
            # Filters request old rows anyway; aggregations delete only sessions, which they store.
            return False


def knows_what_was_there(node: Node) -> bool:
    """Whether a deletion of an absent row can be distinguished from one of an existing row. A table
    that is read without being materialised forwards tombstones as they come."""
    match node:
        case Project():
            return knows_what_was_there(node.input)
        case Read():
            return node.materialised
        case _:
            return True

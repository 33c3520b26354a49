"""What other modules derive from plan nodes, for every kind of node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import pytest

from millstream.model.errors import StatementError
from millstream.model.schema import Schema, SourceKind
from millstream.plan.nodes import (
    Deliver,
    JoinKind,
    Node,
    Repartition,
    SubscriptionResolve,
    Write,
    inputs,
    is_stateful,
    own_expressions,
    with_inputs,
)
from millstream.plan.prune import prune
from millstream.plan.show import describe, show, show_plan
from millstream.plan.upgrade import check_upgrade
from millstream.topology.split import split
from tests.plans.test_golden import FOLDER, last_query

PLANS = sorted(FOLDER.glob("*.txt"))


def walk(node: Node) -> Iterator[Node]:
    yield node
    for below in inputs(node):
        yield from walk(below)


def walk_to_leaves(node: Node) -> Iterator[Node]:
    """The nodes of one sub-topology: what is below a repartition belongs to another one."""
    yield node
    for below in inputs(node):
        if not isinstance(below, Repartition):
            yield from walk_to_leaves(below)


def nodes_of(plan: Write | Deliver) -> Iterator[Node]:
    """The nodes of a logical plan, and of its sub-topologies."""
    yield from walk(plan)
    topology = split(plan, "Q", partitions=lambda _: 4)
    for sub in topology.subtopologies:
        yield from walk(sub.root)


def plans() -> list[Write | Deliver]:
    return [last_query(path.read_text().split("\n--- ")[0]).node for path in PLANS]


def test_the_golden_plans_have_nodes_of_every_kind() -> None:
    kinds = {type(node) for plan in plans() for node in nodes_of(plan)}
    assert kinds == set(get_args(Node))


def test_rewriting_inputs_changes_nothing_else() -> None:
    for plan in plans():
        for node in nodes_of(plan):
            assert with_inputs(node, lambda below: below) == node


def test_expressions_are_shown() -> None:
    """EXPLAIN prints each node's expressions, so `own_expressions` must not leave one out."""
    for plan in plans():
        for node in walk(plan):
            for expression in own_expressions(node):
                assert show(expression) in describe(node)


def test_sub_topologies_have_a_changelog_where_a_node_keeps_state() -> None:
    for plan in plans():
        for sub in split(plan, "Q", partitions=lambda _: 4).subtopologies:
            assert (sub.changelog is not None) == any(map(is_stateful, walk_to_leaves(sub.root)))


def test_a_node_without_rules_keeps_columns_is_printed_and_must_stay() -> None:
    """Pruning, EXPLAIN and CREATE OR REPLACE have defaults for nodes that they do not list."""
    plan = plans()[0]
    (below,) = inputs(plan)

    def over(join: JoinKind) -> Node:
        unlisted = SubscriptionResolve(below, join, below.schema, SourceKind.TABLE)
        return with_inputs(plan, lambda _: unlisted)

    (pruned,) = inputs(prune(over(JoinKind.LEFT)))
    assert pruned.schema == below.schema
    assert "SubscriptionResolve LEFT" in show_plan(over(JoinKind.LEFT))
    check_upgrade("S", over(JoinKind.LEFT), over(JoinKind.LEFT))
    with pytest.raises(StatementError, match="aggregation or window"):
        check_upgrade("S", over(JoinKind.LEFT), over(JoinKind.INNER))
    (node,) = inputs(over(JoinKind.LEFT))
    assert isinstance(node, SubscriptionResolve)
    other = replace(node, schema=Schema(below.schema.columns[:1]))
    with pytest.raises(StatementError, match="aggregation or window"):
        check_upgrade("S", over(JoinKind.LEFT), with_inputs(plan, lambda _: other))

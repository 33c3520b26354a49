"""Determines whether a query calls users' functions, whose run time is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.function import ProcessorFunction, ProcessorKind
from millstream.model.expressions import AggregateCall, Call, Expression, TableCall, walk
from millstream.operators.registration import node_expressions
from millstream.plan.nodes import Aggregate, Node, Process, inputs
from millstream.topology.topology import Topology

_ROUNDS = 4
"""At the end of a run, fewer calls wait: so many times the concurrency keeps that share small."""


def calls_users_functions(topology: Topology) -> bool:
    """Whether a topology has a processor, or an expression of it calls a function that is not built
    in."""
    processes = any(_processes(sub.root) for sub in topology.subtopologies)
    return processes or expressions_call_users_functions(topology)


def expressions_call_users_functions(topology: Topology) -> bool:
    """Whether an expression of a topology calls a function that is not built in."""
    builtin = builtin_catalogue()
    known = {
        Call: builtin.scalar.keys(),
        TableCall: builtin.table.keys(),
        AggregateCall: builtin.aggregate.keys(),
    }
    return any(
        call.function not in known[type(call)]
        for sub in topology.subtopologies
        for call in _calls(sub.root)
    )


def min_batch_records(topology: Topology) -> int:
    """How many records a run of a query needs for as many calls to wait as its processors allow."""
    return max(_ROUNDS * sub.partitions * _awaited(sub.root) for sub in topology.subtopologies) or 1


def _awaited(node: Node) -> int:
    """The most calls of a task that a processor may await."""
    match node:
        case Process(processor=ProcessorFunction(kind=ProcessorKind.ASYNC, concurrency=own)):
            calls = own
        case _:
            calls = 0
    return max((calls, *map(_awaited, inputs(node))))


def _processes(node: Node) -> bool:
    return isinstance(node, Process) or any(map(_processes, inputs(node)))


def _calls(root: Node) -> Iterator[Call | TableCall | AggregateCall]:
    for expression in node_expressions(root):
        yield from filter(_is_call, walk(expression))
    yield from _aggregates(root)


def _is_call(expression: Expression) -> TypeGuard[Call | TableCall]:
    return isinstance(expression, Call | TableCall)


def _aggregates(node: Node) -> Iterator[AggregateCall]:
    if isinstance(node, Aggregate):
        yield from (call for _, call in node.aggregates)
    for below in inputs(node):
        yield from _aggregates(below)

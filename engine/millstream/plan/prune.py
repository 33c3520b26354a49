"""Removes columns that no later step uses."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from millstream.model.expressions import Expression, column_names
from millstream.model.schema import Role, Schema
from millstream.plan.nodes import (
    Aggregate,
    Filter,
    Flatten,
    ForeignKeyJoin,
    Node,
    Project,
    Read,
    Repartition,
    StreamStreamJoin,
    StreamTableJoin,
    TableTableJoin,
    with_inputs,
)

_Join = StreamTableJoin | StreamStreamJoin | TableTableJoin | ForeignKeyJoin


def prune(node: Node) -> Node:
    """The same plan, reading and moving only the columns it needs. Keys always stay, and so do all
    columns below a node that has no case in `_pruned`."""
    return _pruned(node, node.schema.names)


def _pruned(node: Node, needed: Collection[str]) -> Node:
    match node:
        case Read():
            return _read(node, needed)
        case Filter(below, predicate):
            return replace(node, input=_pruned(below, _with(needed, (predicate,))))
        case Project():
            return _project(node, needed)
        case Flatten(below, calls):
            passed = _with([n for n in below.schema.names if n in needed], calls)
            pruned = _pruned(below, passed)
            added = node.schema.columns[len(below.schema.columns) :]
            schema = Schema(pruned.schema.columns + added)
            return replace(node, input=pruned, schema=schema)
        case Repartition(below, keys):
            schema = _kept(node.schema, needed)
            values = [column.name for column in schema.value]
            passed = _with(values, (key.expression for key in keys))
            return replace(node, input=_pruned(below, passed), schema=schema)
        case Aggregate(below, aggregates):
            return replace(node, input=_pruned(below, _with((), (c for _, c in aggregates))))
        case StreamTableJoin() | StreamStreamJoin() | TableTableJoin():
            return _join(node, needed)
        case ForeignKeyJoin():
            return _join(node, {*needed, *column_names(node.foreign_key.expression)})
        case _:
            return with_inputs(node, prune)


def _read(node: Read, needed: Collection[str]) -> Read:
    kept = [
        (column, name)
        for column, name in zip(node.schema.columns, node.columns, strict=True)
        if column.role is Role.KEY or column.name in needed
    ]
    schema = Schema(tuple(column for column, _ in kept))
    return replace(node, schema=schema, columns=tuple(name for _, name in kept))


def _project(node: Project, needed: Collection[str]) -> Project:
    kept = [
        (column, expression)
        for column, expression in zip(node.schema.columns, node.expressions, strict=True)
        if column.role is Role.KEY or column.name in needed
    ]
    expressions = tuple(expression for _, expression in kept)
    schema = Schema(tuple(column for column, _ in kept))
    return Project(_pruned(node.input, _with((), expressions)), expressions, schema)


def _join(node: _Join, needed: Collection[str]) -> Node:
    left, right = _pruned(node.left, needed), _pruned(node.right, needed)
    columns = left.schema.columns + right.schema.value
    return replace(node, left=left, right=right, schema=Schema(columns))


def _kept(schema: Schema, needed: Collection[str]) -> Schema:
    return Schema(tuple(c for c in schema.columns if c.role is Role.KEY or c.name in needed))


def _with(names: Iterable[str], expressions: Iterable[Expression]) -> set[str]:
    return {*names, *(name for e in expressions for name in column_names(e))}

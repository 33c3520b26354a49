"""CREATE OR REPLACE … AS: which plan may continue with the state and the positions of another.

Filters and projections may change, because they have no state. Whatever determines the partitions
and the state of rows must stay (reference: statements, section 14).
"""

from __future__ import annotations

from dataclasses import fields

from millstream.model.errors import StatementError
from millstream.model.schema import Role, SourceKind
from millstream.plan import wordings
from millstream.plan.nodes import (
    Aggregate,
    Deliver,
    Filter,
    Flatten,
    Node,
    Process,
    Project,
    Read,
    Repartition,
    Write,
    inputs,
)

Shape = tuple[object, ...]


def check_upgrade(name: str, before: Node, after: Node) -> None:
    """Refuse a plan that cannot take over the state of the running one of the sink `name`."""
    for node in (before, after):
        _refuse(name, node)
    for what in _SHAPES:
        if _shape(before, what) != _shape(after, what):
            raise _unsupported(name, f"queries whose {what} changes")


def _refuse(name: str, node: Node) -> None:
    """Plans that cannot be upgraded at all."""
    match node:
        case Read(source) if source.window is not None:
            raise _unsupported(name, f"queries of windowed sources ({source.name})")
        case Aggregate() if node.input.kind is SourceKind.TABLE:
            raise _unsupported(name, "aggregations of tables")
        case Process():
            # Its streams are compared, and whether they are several does not matter.
            return
        case _ if len(inputs(node)) > 1:
            raise _unsupported(name, "queries with joins or UNION ALL")
    for below in inputs(node):
        _refuse(name, below)


def _unsupported(name: str, what: str) -> StatementError:
    return wordings.UPGRADE_OF_NODE(
        name=name, what=what, hint="Drop it and create it again, or create another one."
    )


_SHAPES = ("source", "key", "aggregation or window", "partitioning")


def _shape(node: Node, what: str, *, kept: bool = False) -> Shape:
    """One aspect of a plan that must stay. `kept`: a node above stores the output of `node`.

    A node without a case of its own must stay as it is.
    """
    match node:
        case Read(source):
            return (source.name, node.kind, node.materialised) if what == "source" else ()
        case Write() | Deliver() | Filter() | Flatten():
            return _shape(node.input, what, kept=kept)
        case Project():
            own = _projected(node, what, kept=kept)
            return own + _shape(node.input, what, kept=kept)
        case Repartition():
            own = (node.keys, node.schema) if what == "partitioning" else ()
            return own + _shape(node.input, what, kept=True)
        case Process(_, processor, schema, streams):
            # What the processors do may change; their stores are compared as tables.
            own = (processor.name, processor.kind, streams, schema if kept else ())
            below = _shape(node.input, what, kept=True)
            return (own if what == "source" else ()) + below
        case Aggregate():
            own = (node.aggregates, node.window, node.final, node.schema)
            below = _shape(node.input, what, kept=True)
            return (own if what == "aggregation or window" else ()) + below
        case _:
            shape = _settings(node) if what == "aggregation or window" else ()
            for item in inputs(node):
                shape += _shape(item, what, kept=True)
            return shape


def _settings(node: Node) -> Shape:
    values = (getattr(node, field.name) for field in fields(node))
    return tuple(value for value in values if not isinstance(value, Node))


def _projected(node: Project, what: str, *, kept: bool) -> Shape:
    """The key as it is computed, and all columns where they become state."""
    if what == "aggregation or window":
        return (node.expressions, node.schema) if kept else ()
    if what != "key":
        return ()
    return tuple(
        expression
        for column, expression in zip(node.schema.columns, node.expressions, strict=True)
        if column.role is Role.KEY
    )

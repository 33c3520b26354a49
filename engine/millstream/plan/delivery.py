"""The extra columns that a push query delivers."""

from __future__ import annotations

from dataclasses import replace

from millstream.model.expressions import ColumnRef
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.plan.joins import materialised
from millstream.plan.nodes import Deliver, Project


def with_key(node: Deliver) -> Deliver:
    """Add the key of a table's rows behind the columns: where changes of a key are coalesced, rows
    of different keys must differ, even if the query leaves the key out. A table that is read
    directly is materialised: a row that is inserted and deleted between two commits is not shown.
    """
    below = node.input
    if node.kind is SourceKind.STREAM or not isinstance(below, Project):
        return node
    key = below.input.schema.key
    # A query may use this name already; a longer one is free.
    first = "$" * max([0, *map(len, below.schema.names)]) + "KEY_"
    columns = tuple(Column(f"{first}{n}", c.type, Role.KEY) for n, c in enumerate(key))
    references = tuple(ColumnRef(column.name, column.type) for column in key)
    project = replace(
        below,
        input=materialised(below.input),
        expressions=(*below.expressions, *references),
        schema=Schema((*below.schema.columns, *columns)),
    )
    return replace(node, input=project)

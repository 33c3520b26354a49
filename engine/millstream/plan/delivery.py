"""What a push query delivers besides its columns."""

from __future__ import annotations

from dataclasses import replace

from millstream.model.expressions import ColumnRef
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.plan.joins import materialised
from millstream.plan.nodes import Deliver, Project


def with_key(node: Deliver) -> Deliver:
    """The same with the key of a table's rows behind the columns: where changes of a key are
    coalesced, rows of different keys must differ, also where the query leaves the key out. A table
    that is read as it is is kept: a row that comes and goes between two commits is not shown."""
    below = node.input
    if node.kind is SourceKind.STREAM or not isinstance(below, Project):
        return node
    key = below.input.schema.key
    # A client may have chosen a name like this; a longer one is free.
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

"""SELECT: computes new columns from those of the input."""

from __future__ import annotations

from dataclasses import replace

from millstream.model.schema import Role
from millstream.operators.relation import (
    SelectFragment,
    Setting,
    key_text,
    nested,
    reported,
    value_text,
)
from millstream.plan.nodes import Project


def compile_project(
    node: Project, given: SelectFragment, label: str, setting: Setting
) -> SelectFragment:
    """One expression for each column of the node's schema; it is fused with filters below it."""
    part = nested(given, setting)
    pairs = list(zip(node.schema.names, node.expressions, strict=True))
    part = reported(part, label, [(f"column {name}", e) for name, e in pairs], setting)
    columns = tuple(
        (key_text if column.role is Role.KEY else value_text)(e, part.schema, setting)
        for column, e in zip(node.schema.columns, node.expressions, strict=True)
    )
    return replace(part, schema=node.schema, columns=columns)

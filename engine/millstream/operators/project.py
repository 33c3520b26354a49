"""SELECT: computes new columns from those of the input."""

from __future__ import annotations

from dataclasses import replace

from millstream.model.expressions import ColumnRef
from millstream.model.schema import Role
from millstream.operators.relation import (
    SelectFragment,
    Setting,
    key_text,
    names,
    nested,
    quoted,
    reported,
    value_text,
)
from millstream.operators.sql import is_identifier
from millstream.plan.nodes import Project


def compile_project(
    node: Project, given: SelectFragment, label: str, setting: Setting
) -> SelectFragment:
    """One expression for each column of the node's schema; it is fused with filters below it, and
    with a SELECT of plain columns that it only renames."""
    renamed = _renamed(node, given)
    if renamed is not None:
        return replace(given, schema=node.schema, columns=renamed)
    part = nested(given, setting)
    pairs = list(zip(node.schema.names, node.expressions, strict=True))
    part = reported(part, label, [(f"column {name}", e) for name, e in pairs], setting)
    columns = tuple(
        (key_text if column.role is Role.KEY else value_text)(e, part.schema, setting)
        for column, e in zip(node.schema.columns, node.expressions, strict=True)
    )
    return replace(part, schema=node.schema, columns=columns)


def _renamed(node: Project, given: SelectFragment) -> tuple[str, ...] | None:
    """The columns of the source that the node selects; None if it computes any, or if a column that
    it selects is computed, which might then happen twice."""
    texts = given.columns if given.columns is not None else quoted(names(given.schema))
    known = {
        name: text
        for name, text in zip(given.schema.names, texts, strict=True)
        if is_identifier(text)
    }
    chosen = [
        known.get(expression.name) if isinstance(expression, ColumnRef) else None
        for expression in node.expressions
    ]
    columns = tuple(text for text in chosen if text is not None)
    return columns if len(columns) == len(chosen) else None

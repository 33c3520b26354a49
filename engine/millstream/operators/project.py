"""SELECT: computes new columns from those of the input."""

from __future__ import annotations

from dataclasses import replace

from millstream.operators.relation import Part, Setting, nested, reported, value_text
from millstream.plan.nodes import Project


def compile_project(node: Project, given: Part, label: str, setting: Setting) -> Part:
    """One expression for each column of the node's schema; fuses with filters below it."""
    part = nested(given, setting)
    pairs = list(zip(node.schema.names, node.expressions, strict=True))
    part = reported(part, label, [(f"column {name}", e) for name, e in pairs], setting)
    columns = tuple(value_text(e, part.schema, setting) for _, e in pairs)
    return replace(part, schema=node.schema, columns=columns)

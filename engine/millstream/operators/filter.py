"""WHERE and HAVING: keeps the rows for which the predicate is TRUE."""

from __future__ import annotations

from dataclasses import replace

from millstream.operators.expressions import compile_predicate
from millstream.operators.relation import PRESENT, Part, Setting, column_lookup, nested, reported
from millstream.operators.sql import guarded
from millstream.plan.nodes import Filter


def compile_filter(node: Filter, given: Part, label: str, setting: Setting) -> Part:
    """Rows without a value (`$diff` = 0) are dropped as well."""
    part = nested(given, setting)
    if PRESENT not in part.where:
        part = replace(part, where=(*part.where, PRESENT))
    part = reported(part, label, [("WHERE", node.predicate)], setting)
    text = compile_predicate(
        node.predicate, setting.catalogue, exact=setting.exact, columns=column_lookup(part.schema)
    )
    kept = f"coalesce({guarded(text)}, FALSE)" if setting.exact else f"({text})"
    return replace(part, where=(*part.where, kept))

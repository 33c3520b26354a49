"""WHERE and HAVING: keeps the rows for which the predicate is TRUE."""

from __future__ import annotations

from dataclasses import replace

from millstream.operators.expressions import compile_predicate
from millstream.operators.guards import guarded_text
from millstream.operators.relation import (
    PRESENT,
    SelectFragment,
    Setting,
    column_lookup,
    nested,
    reported,
)
from millstream.plan.nodes import Aggregate, Filter


def compile_filter(
    node: Filter, given: SelectFragment, label: str, setting: Setting
) -> SelectFragment:
    """Rows without a value (`$diff` = 0) are dropped as well."""
    part = nested(given, setting)
    if PRESENT not in part.where:
        part = replace(part, where=(*part.where, PRESENT))
    clause = "HAVING" if isinstance(node.input, Aggregate) else "WHERE"
    part = reported(part, label, [(clause, node.predicate)], setting)
    lookup, catalogue = column_lookup(part.schema), setting.catalogue
    if setting.exact:
        text = guarded_text(node.predicate, catalogue, lookup, compiled=compile_predicate)
        kept = f"coalesce({text}, FALSE)"
    else:
        kept = f"({compile_predicate(node.predicate, catalogue, exact=False, columns=lookup)})"
    return replace(part, where=(*part.where, kept))

"""The root that moves rows to the partition of their new key."""

from __future__ import annotations

from dataclasses import replace

from millstream.operators.relation import (
    SelectFragment,
    Setting,
    column_lookup,
    key_text,
    nested,
    reported,
)
from millstream.operators.versions import key_names
from millstream.plan.nodes import Repartition


def compile_repartition(
    node: Repartition, given: SelectFragment, label: str, setting: Setting
) -> SelectFragment:
    """Compute the key columns, forward the value columns, drop rows without a key."""
    part = nested(given, setting)
    named = {key.name: key.expression for key in node.keys}
    part = reported(part, label, [(f"key {name}", e) for name, e in named.items()], setting)
    lookup = column_lookup(part.schema)
    keys = {column.name for column in node.schema.key}
    columns = tuple(
        key_text(named[column.name], part.schema, setting)
        if column.name in keys and column.name in named
        else lookup(column.name)
        for column in node.schema.columns
    )
    part = replace(part, schema=node.schema, columns=columns)
    if not node.drop_null_keys:
        return part
    part = nested(part, setting)
    return replace(part, where=tuple(f"{name} IS NOT NULL" for name in key_names(node.schema)))

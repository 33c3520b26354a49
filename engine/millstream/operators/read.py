"""The leaves: records of a stream, changes of a table, rows of a repartition topic."""

from __future__ import annotations

from dataclasses import replace

from millstream.model.schema import Schema, SourceKind
from millstream.operators.relation import SelectFragment, Setting, names, quoted
from millstream.operators.sql import identifier
from millstream.operators.versions import (
    DF,
    HAD,
    RT,
    SQ,
    P,
    VersionedTable,
    kept,
    key_names,
    old_names,
)
from millstream.plan.nodes import Read


def compile_read(
    node: Read, source: str, label: str, setting: Setting, *, old: bool
) -> SelectFragment:
    """A stream passes through; a table loses records without a key and, when materialised, becomes
    pairs of the old (-1) and the new (+1) row, with the old one only if `old`."""
    part = SelectFragment(node.schema, identifier(source), nodes=(node,))
    if node.kind is SourceKind.STREAM:
        return part
    keyed = " OR ".join(f"{name} IS NOT NULL" for name in key_names(node.schema))
    part = replace(part, where=(f"({keyed})",))
    return materialise(part, label, setting, old=old) if node.materialised else part


def materialise(part: SelectFragment, label: str, setting: Setting, *, old: bool) -> SelectFragment:
    """The earlier row of each change comes from the batch or, for a key's first change, from the
    table of current rows. A reader that does not need old rows gets the changes unmodified."""
    changes = kept(part, VersionedTable(label, part.schema, old))
    return replace(changes, source=_pairs(part.schema, label, setting)) if old else changes


def _pairs(schema: Schema, label: str, setting: Setting) -> str:
    """Old rows, then new ones and deletions of absent rows."""
    rows, before = identifier(f"{label}_rows"), old_names(schema)
    columns = quoted(names(schema))
    old = ", ".join(f"{before[name]} AS {name}" if name in before else name for name in columns)
    tail = "".join(f", {name}" for name in quoted(setting.carried))
    return (
        f"(\n  SELECT {old}, {P}, {SQ}, {RT}, -1::TINYINT AS {DF}{tail}\n"
        f"  FROM {rows} WHERE {HAD}\n  UNION ALL\n"
        f"  SELECT {', '.join(columns)}, {P}, {SQ}, {RT}, {DF}{tail}\n"
        f"  FROM {rows} WHERE {DF} = 1 OR NOT {HAD}\n)"
    )

"""Table-table join: one row per key, updated by every change of either side."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.operators.relation import SelectFragment, Setting, names, nested, quoted
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
    known,
    old_names,
    same_keys,
    value_names,
)
from millstream.plan.nodes import Filter, JoinKind, Node, Project, Repartition, TableTableJoin

CHANGES = "(VALUES (-1::TINYINT), (1::TINYINT)) c(change)"
"""The rows that a change removes and inserts."""


def left_table(label: str) -> str:
    """The state table that keeps the left rows."""
    return f"{label}_left"


def right_table(label: str) -> str:
    """The state table that keeps the right rows."""
    return f"{label}_right"


def pairs(node: Node) -> bool:
    """Whether the changes of a relation, read without the rows they replace, may contain these
    nevertheless."""
    match node:
        case Filter() | Repartition():
            return True
        case Project():
            return pairs(node.input)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class _Side:
    """One input: its changes, their storage, and whether its unmatched rows survive."""

    part: SelectFragment
    how: VersionedTable
    outer: bool


def compile_table_table_join(
    node: TableTableJoin,
    left: SelectFragment,
    right: SelectFragment,
    label: str,
    setting: Setting,
    *,
    old: bool,
) -> SelectFragment:
    """Each change is joined with the other side as of its `$seq`, by an ASOF join against the
    versions of the batch and the stored rows. `old`: each change is preceded by the row it replaces
    (-1); without it, only deletions are."""
    of_left = VersionedTable(left_table(label), left.schema, old=True, pairs=pairs(node.left))
    of_right = VersionedTable(right_table(label), right.schema, old=True, pairs=pairs(node.right))
    a = _side(left, of_left, node.join in (JoinKind.LEFT, JoinKind.FULL), setting)
    b = _side(right, of_right, node.join in (JoinKind.RIGHT, JoinKind.FULL), setting)
    met = (_met(node, a, b, setting, old=old), _met(node, b, a, setting, old=old))
    return SelectFragment(
        schema=node.schema,
        source=f"(\n  {met[0]}\n  UNION ALL\n  {met[1]}\n)",
        steps=(*a.part.steps, *b.part.steps),
        writes=(*a.part.writes, *b.part.writes),
        tables=(*a.part.tables, *b.part.tables),
        late=(*a.part.late, *b.part.late),
        problems=(*a.part.problems, *b.part.problems),
        traced=left.traced and right.traced,
    )


def _side(given: SelectFragment, how: VersionedTable, outer: bool, setting: Setting) -> _Side:
    part = nested(given, setting)
    keyed = tuple(f"{name} IS NOT NULL" for name in key_names(how.schema))
    where = tuple(dict.fromkeys((*part.where, *keyed)))
    return _Side(kept(replace(part, where=where), how), how, outer)


def _met(node: TableTableJoin, own: _Side, other: _Side, setting: Setting, *, old: bool) -> str:
    """The rows that the changes of one side remove and insert."""
    rows = identifier(f"{own.how.table}_rows")
    keys = key_names(own.how.schema)
    same = same_keys("b", own.how.schema, "o", other.how.schema)
    before, after = f"b.{HAD}", f"b.{DF} = 1"
    exists = _exists(own, other, f"CASE WHEN c.change = 1 THEN {after} ELSE {before} END")
    if not old:
        exists = f"({exists}) AND (c.change = 1 OR NOT ({_exists(own, other, after)}))"
    items = [f"{text} AS {name}" for name, text in _columns(node, own, other).items()]
    time = f'greatest(b.{RT}, CASE WHEN o."$live" THEN o.{RT} END)'
    items += [f"b.{P}", f"b.{SQ}", f"{time} AS {RT}", f"c.change AS {DF}"]
    items += [f"b.{name}" for name in quoted(setting.carried)]
    return (
        f"SELECT {', '.join(items)}\n"
        f"  FROM (SELECT * FROM {rows} WHERE {HAD} OR {DF} = 1) b\n"
        f"  ASOF LEFT JOIN (\n  {known(other.how, rows, keys)}\n  ) o\n"
        f"  ON {' AND '.join(same)} AND b.{SQ} > o.{SQ}, {CHANGES}\n"
        f"  WHERE {exists}"
    )


def _exists(own: _Side, other: _Side, mine: str) -> str:
    """Whether there is a joined row; `mine`: whether there is a row of this side."""
    theirs = 'coalesce(o."$live", FALSE)'
    match (own.outer, other.outer):
        case (True, True):
            return f"{mine} OR {theirs}"
        case (True, False):
            return mine
        case (False, True):
            return theirs
        case _:
            return f"{mine} AND {theirs}"


def _columns(node: TableTableJoin, own: _Side, other: _Side) -> dict[str, str]:
    """The origin of each column of the result: by name, the key from the side that changes."""
    texts = {}
    for column, key in zip(node.schema.key, key_names(own.how.schema), strict=True):
        texts[column.name] = f"b.{key}"
    olds = old_names(own.how.schema)
    for column, name in zip(own.how.schema.value, value_names(own.how.schema), strict=True):
        brought = f"WHEN c.change = 1 AND b.{DF} = 1 THEN b.{name}"
        taken = f"WHEN c.change = -1 AND b.{HAD} THEN b.{olds[name]}"
        texts.setdefault(column.name, f"CASE {brought} {taken} END")
    for column, name in zip(other.how.schema.value, value_names(other.how.schema), strict=True):
        texts.setdefault(column.name, f'CASE WHEN o."$live" THEN o.{name} END')
    columns = zip(node.schema.names, quoted(names(node.schema)), strict=True)
    return {physical: texts[name] for name, physical in columns}


def joined_rows(node: TableTableJoin, left: str, right: str) -> str:
    """The rows of the join, from the state tables of both sides."""
    ours, theirs = key_names(node.left.schema), key_names(node.right.schema)
    keys = tuple(zip(ours, theirs, strict=True))
    texts = {
        column.name: f"coalesce(b.{mine}, o.{other})"
        for column, (mine, other) in zip(node.schema.key, keys, strict=True)
    }
    for side, schema in (("b", node.left.schema), ("o", node.right.schema)):
        for column, name in zip(schema.value, value_names(schema), strict=True):
            texts.setdefault(column.name, f"{side}.{name}")
    columns = zip(node.schema.names, quoted(names(node.schema)), strict=True)
    listed = ", ".join(f"{texts[name]} AS {physical}" for name, physical in columns)
    same = " AND ".join((f"b.{P} = o.{P}", *(f"b.{mine} = o.{other}" for mine, other in keys)))
    return (
        f"(\n  SELECT {listed},\n"
        f"  coalesce(b.{P}, o.{P}) AS {P}, greatest(b.{RT}, o.{RT}) AS {RT}\n"
        f"  FROM {left} b {node.join.value} JOIN {right} o ON {same}\n)"
    )

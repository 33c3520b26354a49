"""Stream-table join: each stream row with the table's row of its key at that time."""

from __future__ import annotations

from dataclasses import replace

from millstream.model.batch import DIFF, PART, ROWTIME, SEQ
from millstream.operators.program import Sql, Upsert
from millstream.operators.relation import (
    SelectFragment,
    Setting,
    materialised,
    meta_names,
    names,
    nested,
    plain,
    quoted,
)
from millstream.operators.sql import identifier
from millstream.operators.versions import key_names, row_table, same_keys, stored_versions
from millstream.plan.nodes import JoinKind, StreamTableJoin

P, SQ, RT, DF = (identifier(name) for name in (PART, SEQ, ROWTIME, DIFF))


def compile_stream_table_join(
    node: StreamTableJoin, left: SelectFragment, right: SelectFragment, label: str, setting: Setting
) -> SelectFragment:
    """ASOF join on `$seq` against the versions of the batch and the stored rows. Changes of the
    table emit nothing; left rows without a value are dropped, and those without a key unless they
    are padded."""
    rows, last = f"{label}_right", f"{label}_last"
    if not plain(left):
        left = materialised(left, f"{label}_left", setting)  # it is read twice
    right = nested(right, setting)
    left_keys, right_keys = key_names(left.schema), key_names(right.schema)
    keyed = tuple(f"{name} IS NOT NULL" for name in right_keys)
    changed = materialised(replace(right, where=(*right.where, *keyed)), rows, setting)
    table = row_table(label, right.schema)
    columns = quoted(names(right.schema))
    partition = ", ".join((P, *right_keys))
    kept = (
        f'SELECT {", ".join((P, *columns, RT))}, {DF} <> 1 AS "$deleted"\nFROM {identifier(rows)}\n'
        f"QUALIFY row_number() OVER (PARTITION BY {partition} ORDER BY {SQ} DESC, {DF} DESC) = 1"
    )
    stored = stored_versions(label, right_keys, (P, *columns), left.source, left_keys)
    versions = (
        f'SELECT {", ".join((P, *columns))}, {SQ}, {DF} = 1 AS "$live" FROM {identifier(rows)}\n'
        f"  {_one_per_seq(partition)}\n  UNION ALL\n  {stored}"
    )
    same = same_keys("l", left.schema, "r", right.schema)
    inner = node.join is JoinKind.INNER
    checks = [f"{DF} <> 0", *(f"{name} IS NOT NULL" for name in left_keys if inner)]
    where = " AND ".join(dict.fromkeys((*left.where, *checks)))
    how = "" if inner else "LEFT "
    source = (
        f"(SELECT * FROM {left.source} WHERE {where}) l\n"
        f"ASOF {how}JOIN (\n  {versions}\n) r\n"
        f"ON {' AND '.join(same)} AND l.{left.origin or SQ} > r.{SQ}"
    )
    return SelectFragment(
        schema=node.schema,
        source=source,
        columns=_columns(node, left, right),
        where=('r."$live"',) if inner else (),
        meta=tuple((name, f"l.{name}") for name in _meta(setting)),
        steps=(*left.steps, *changed.steps, Sql(last, kept)),
        writes=(*left.writes, *changed.writes, Upsert(label, last, deletes=True)),
        tables=(*left.tables, *changed.tables, table),
        late=(*left.late, *changed.late),
        problems=(*left.problems, *changed.problems),
        traced=left.traced,
        origin=left.origin and f"l.{left.origin}",
        nodes=left.nodes,
        nested=left.nested,
    )


def _one_per_seq(partition: str) -> str:
    """In a pair -1, +1 the +1 is the version that counts."""
    return f"QUALIFY row_number() OVER (PARTITION BY {partition}, {SQ} ORDER BY {DF} DESC) = 1"


def _meta(setting: Setting) -> tuple[str, ...]:
    return quoted(meta_names(setting))


def _columns(node: StreamTableJoin, left: SelectFragment, right: SelectFragment) -> tuple[str, ...]:
    """The origin of each column of the result: by name, the key from the left."""
    sides = dict(
        zip(left.schema.names, (f"l.{n}" for n in quoted(names(left.schema))), strict=True)
    )
    for name, text in zip(right.schema.names, quoted(names(right.schema)), strict=True):
        sides.setdefault(name, f'CASE WHEN r."$live" THEN r.{text} END')
    for column, key in zip(node.schema.key, key_names(left.schema), strict=False):
        sides.setdefault(column.name, f"l.{key}")
    return tuple(sides[name] for name in node.schema.names)

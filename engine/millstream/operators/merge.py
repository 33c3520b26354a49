"""UNION ALL: the rows of two streams as one."""

from __future__ import annotations

from dataclasses import replace

from millstream.model.batch import SEQ
from millstream.operators.program import Nested
from millstream.operators.relation import ORIGIN, SelectFragment, Setting, select_text
from millstream.operators.sql import identifier
from millstream.plan.nodes import Merge

SQ = identifier(SEQ)


def compile_merge(
    node: Merge, left: SelectFragment, right: SelectFragment, setting: Setting
) -> SelectFragment:
    """Rows keep the order of the records that caused them. If a branch has numbered its rows anew,
    all rows are numbered in that order."""
    traced = left.traced and right.traced
    if not traced:
        left, right = (replace(part, origin=part.origin or SQ) for part in (left, right))
    one, other = (f"\n{select_text(part, setting)}\n" for part in (left, right))
    ordered = f"row_number() OVER (ORDER BY {ORIGIN}, {SQ}) - 1"
    return SelectFragment(
        schema=node.schema,
        source=f"(({one}) UNION ALL ({other}))",
        meta=() if traced else ((SQ, ordered),),
        steps=(*left.steps, *right.steps),
        writes=(*left.writes, *right.writes),
        tables=(*left.tables, *right.tables),
        late=(*left.late, *right.late),
        problems=(*left.problems, *right.problems),
        traced=traced,
        origin=None if traced else ORIGIN,
        nodes=(node,),
        nested=(
            *left.nested,
            *right.nested,
            Nested(hash(one), left.nodes[:-1]),
            Nested(hash(other), right.nodes[:-1]),
        ),
    )

"""Stream-stream joins: the pairs of rows that are near in time, and unmatched rows.

Steps: order the rows of both sides by arrival (`arrival_sequence`); join the new rows of each side
with the older rows of the other one, stored or new; find new rows without a match, which are
emitted padded at once or wait; release the waiting rows whose time has passed.
"""

from __future__ import annotations

from collections.abc import Iterator

from millstream.model.batch import ROWTIME, SEQ
from millstream.model.physical import duckdb_type
from millstream.operators import arrival_sequence
from millstream.operators.arrival_texts import (
    ArrivalTexts,
    clock_text,
    moments_text,
    placed_text,
    timeline_text,
)
from millstream.operators.program import Call, Expiry, Sql, StateTable, Step, Upsert
from millstream.operators.relation import ORIGIN, PRESENT, SelectFragment, Setting, names, nested
from millstream.operators.sql import identifier
from millstream.operators.stream_pairs import (
    BUCKET,
    ORDER,
    RT,
    Join,
    P,
    Side,
    bucket,
    pairs_text,
)
from millstream.operators.unmatched_rows import (
    alone_text,
    closing_steps,
    padded_text,
    released_text,
    waiting_steps,
    waiting_table,
)
from millstream.plan.nodes import JoinKind, StreamStreamJoin, Within

SQ = identifier(SEQ)
_DAY_MS = 24 * 60 * 60 * 1000


def compile_stream_stream_join(
    node: StreamStreamJoin,
    left: SelectFragment,
    right: SelectFragment,
    label: str,
    setting: Setting,
) -> SelectFragment:
    """The later of its two rows emits a pair. Rows without a value or key are dropped."""
    join = _join(node, nested(left, setting), nested(right, setting), label, setting)
    pairs = "\nUNION ALL\n".join(pairs_text(join, x, y) for x, y in join.sides)
    outer = tuple(x for x, _ in join.sides if x.outer)
    steps: tuple[Step, ...] = (*_arriving(join), Sql(f"{label}_pairs", pairs))
    selects = [f"SELECT * FROM {join.name('pairs')}"]
    writes: tuple[Step, ...] = ()
    tables: tuple[StateTable, ...] = ()
    if outer:
        steps = (*steps, Sql(f"{label}_alone", alone_text(join, outer)))
        selects += [padded_text(join, x) for x in outer]
    if join.waits:
        steps = (*steps, *waiting_steps(join))
        selects += [released_text(join, x) for x in outer]
        writes = (Upsert(f"{label}_waiting", f"{label}_waiting_new", deletes=True),)
        tables = (waiting_table(join),)
    result = "\n  UNION ALL\n".join(selects)
    source = f"(\n  {result}\n)" if outer else join.name("pairs")
    ordered = f"row_number() OVER (ORDER BY {', '.join(ORDER)}) - 1"
    return SelectFragment(
        schema=node.schema,
        source=source,
        meta=((SQ, ordered),),
        steps=(*left.steps, *right.steps, *steps),
        writes=(*left.writes, *right.writes, *_writes(join), *writes),
        tables=(*left.tables, *right.tables, *_tables(join), *tables),
        late=(*left.late, *right.late, f"{label}_clock_new"),
        problems=(*left.problems, *right.problems),
        traced=False,
        origin=ORIGIN,
    )


def _join(
    node: StreamStreamJoin,
    left: SelectFragment,
    right: SelectFragment,
    label: str,
    setting: Setting,
) -> Join:
    before, after = node.within.before_ms, node.within.after_ms
    kind = node.join
    return Join(
        node,
        label,
        Side("left", "l", left, before, after, kind in (JoinKind.LEFT, JoinKind.FULL)),
        Side("right", "r", right, after, before, kind in (JoinKind.RIGHT, JoinKind.FULL)),
        _retention(node.within),
        setting.carried,
        setting.closing,
    )


def _retention(within: Within) -> int:
    """For how long a side's rows are stored, counted from its newest one."""
    size = within.before_ms + within.after_ms
    return max(size, _DAY_MS) if within.grace_ms is None else size + within.grace_ms


# ---- rows as they come --------------------------------------------------------------------------


def _arriving(join: Join) -> Iterator[Step]:
    label = join.label
    left, right = inputs = (f"{label}_left_input", f"{label}_right_input")
    rows = (f"{label}_left_rows", f"{label}_right_rows")
    clock, stored, line = f"{label}_clock", f"{label}_clock_stored", f"{label}_line"
    for (side, _), name in zip(join.sides, inputs, strict=True):
        yield Sql(name, _input_text(join, side), side.given.nodes, side.given.nested)
    yield Sql(stored, f"SELECT * FROM {identifier(clock)}")
    shown = ArrivalTexts(left, right, stored, line, join.retention, join.carried)
    ordered = arrival_sequence.timeline(left, right, stored, join.retention)
    yield Call(line, "arrivals", ordered, (*inputs, stored), timeline_text(shown))
    for which, (name, target) in enumerate(zip(inputs, rows, strict=True)):
        placed = arrival_sequence.placed(name, line, which)
        yield Call(target, "placed", placed, (name, line), placed_text(shown, name, which))
        kept = f'SELECT * FROM {identifier(target)} WHERE "$kept"'
        yield Call(f"{target}_kept", "kept", arrival_sequence.kept(target), (target,), kept)
    closing = join.waits and join.closing
    now = f"{clock}_moved" if closing else f"{clock}_new"
    after = arrival_sequence.clock_after(line)
    yield Call(now, "clock", after, (line,), clock_text(shown))
    if join.waits:
        moments = f"{label}_moments_risen" if closing else f"{label}_moments"
        risen = arrival_sequence.moments(left, right, line, join.carried)
        yield Call(moments, "moments", risen, (*inputs, line), moments_text(shown))
    if closing:
        yield from closing_steps(join)


def _input_text(join: Join, side: Side) -> str:
    part = side.given
    checks = (PRESENT, f"{RT} >= 0", *(f"{name} IS NOT NULL" for name in side.keys))
    where = " AND ".join(dict.fromkeys((*part.where, *checks)))
    origin = part.origin or SQ
    listed = [P, *side.columns, RT, SQ, f"{origin} AS {ORIGIN}", *join.tail]
    listed.append(f"{bucket(join, RT)} AS {BUCKET}")
    return f"SELECT {', '.join(listed)}\nFROM {part.source}\nWHERE {where}"


def _tables(join: Join) -> tuple[StateTable, ...]:
    clock = StateTable(
        f"{join.label}_clock",
        (),
        tuple((name, "BIGINT") for name in arrival_sequence.CLOCK),
        plain=True,
    )
    return (*(_buffer(join, side) for side, _ in join.sides), clock)


def _buffer(join: Join, side: Side) -> StateTable:
    schema = side.given.schema
    columns = [
        (name, duckdb_type(column.type))
        for column, name in zip(schema.columns, names(schema), strict=True)
    ]
    key = ((arrival_sequence.ARRIVAL, "BIGINT"),)
    values = (*columns, ("$bucket", "BIGINT"))
    expiry = Expiry(ROWTIME, f"{join.label}_clock", side.name, join.retention)
    return StateTable(f"{join.label}_{side.name}", key, values, appended=True, expiry=expiry)


def _writes(join: Join) -> tuple[Step, ...]:
    label = join.label
    buffers = (
        Upsert(f"{label}_{side.name}", f"{label}_{side.name}_rows_kept", fresh=True)
        for side, _ in join.sides
    )
    return (*buffers, Upsert(f"{label}_clock", f"{label}_clock_new"))

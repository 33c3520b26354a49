"""Rows of a stream-stream join without a match: emitted at once, or after they have waited for
one."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.operators import arrival_sequence
from millstream.operators.program import Sql, StateTable, Step
from millstream.operators.relation import ORIGIN, quoted
from millstream.operators.sql import identifier
from millstream.operators.stream_pairs import ARRIVAL, RT, Join, P, Side, known, select

_LAST = 1 << 62
"""The origin of what no record of the run has caused: behind all of them."""


def alone_text(join: Join, outer: Iterable[Side]) -> str:
    """New rows of outer sides that find no match; `$open`: they may still get one."""
    pairs = join.name("pairs")
    waits = "FALSE"
    if join.waits:
        waits = 'x.{time} + {ahead} >= x."$time"'
    return "\nUNION ALL\n".join(
        f"SELECT {P}, '{side.name}' AS \"$side\", {ARRIVAL}, {RT}, "
        f'{waits.format(time=RT, ahead=side.ahead)} AS "$open"\nFROM {join.rows(side)} x\n'
        f"WHERE NOT EXISTS (FROM {pairs} p WHERE p.{P} = x.{P} AND p.{ARRIVAL} = x.{ARRIVAL})"
        for side in outer
    )


def padded_text(join: Join, side: Side) -> str:
    """Rows without a match that are emitted on arrival."""
    x = side.alias
    order = (f"{x}.{ARRIVAL}", "TRUE", f"{x}.{RT}", f"{x}.{ARRIVAL}")
    return (
        f"{select(join, (side,), x, f'{x}.{RT}', order)}\n  FROM {join.rows(side)} {x}\n"
        f'  SEMI JOIN (FROM {join.name("alone")} WHERE NOT "$open") USING ({P}, {ARRIVAL})'
    )


def waiting_table(join: Join) -> StateTable:
    """The rows of outer sides that have no match and whose windows are open."""
    key = ((arrival_sequence.ARRIVAL, "BIGINT"),)
    return StateTable(f"{join.label}_waiting", key, (("$side", "VARCHAR"),))


def waiting_steps(join: Join) -> tuple[Step, ...]:
    """`fate`: the rows that wait, with the arrival that ends the wait (`$at`): of a match, or of
    the row with which stream time passes the end of the window and the grace period."""
    listed = f'{P}, "$side", {ARRIVAL}, {RT}'
    waiting = (
        f'SELECT *, {_close_text(join)} AS "$close" FROM (\n'
        f'    SELECT {listed}, TRUE AS "$stored" FROM {join.name("waiting")}\n'
        f'    UNION ALL SELECT {listed}, FALSE FROM {join.name("alone")} WHERE "$open")'
    )
    matched = (
        f'SELECT {P}, "$earlier", min({ARRIVAL}) AS "$first"\n'
        f"    FROM {join.name('pairs')} GROUP BY ALL"
    )
    clock = join.name("clock_new")
    concerned = (
        f'SELECT w.*, m."$first"\n  FROM (\n  {waiting}\n  ) w JOIN {clock} c USING ({P})\n'
        f'  LEFT JOIN (\n    {matched}\n  ) m ON w.{P} = m.{P} AND w.{ARRIVAL} = m."$earlier"\n'
        f'  WHERE NOT w."$stored" OR m."$first" IS NOT NULL OR w."$close" < c."time"'
    )
    released = f'w."$first" IS NULL OR y.{ARRIVAL} <= w."$first"'
    tail = "".join(f", y.{name}" for name in join.tail)
    fate = (
        f'SELECT w.{P}, w."$side", w.{ARRIVAL}, w.{RT}, w."$stored", y.{ORIGIN}{tail},\n'
        f'  CASE WHEN {released} THEN y.{ARRIVAL} END AS "$at",\n'
        f'  y.{ARRIVAL} IS NOT NULL OR w."$first" IS NOT NULL AS "$deleted"\n'
        f"FROM (\n  {concerned}\n) w\n"
        f'ASOF LEFT JOIN {join.name("moments")} y ON w.{P} = y.{P} AND w."$close" < y."$time"'
    )
    changed = f'SELECT * FROM {join.name("fate")} WHERE "$stored" = "$deleted"'
    return (Sql(f"{join.label}_fate", fate), Sql(f"{join.label}_waiting_new", changed))


def _close_text(join: Join) -> str:
    """The stream time up to which a row waits."""
    ahead = f"CASE \"$side\" WHEN 'left' THEN {join.left.ahead} ELSE {join.right.ahead} END"
    return f"{RT} + {ahead} + {join.node.within.grace_ms}"


def closing_steps(join: Join) -> tuple[Step, ...]:
    """Without a row, stream time passes the end of the wait of all stored rows, on both sides, as
    the last arrival of the run."""
    label, clock = join.label, f"{join.label}_clock"
    columns = ", ".join(quoted(arrival_sequence.CLOCK))
    moved, stored = identifier(f"{clock}_moved"), identifier(f"{clock}_stored")
    before = (
        f"SELECT {P}, {columns}, late FROM {moved}\n    UNION ALL\n"
        f"    SELECT {P}, {columns}, 0 FROM {stored} ANTI JOIN {moved} USING ({P})"
    )
    raised = (
        f'SELECT b.*, w."$time"\nFROM (\n    {before}\n) b JOIN (\n'
        f'    SELECT {P}, max({_close_text(join)}) + 1 AS "$time"\n'
        f'    FROM {join.name("waiting")} GROUP BY {P}\n) w USING ({P}) WHERE w."$time" > b."time"'
    )
    time, *sides = (f'"$time" AS {name}' for name in quoted(arrival_sequence.CLOCK[:3]))
    new = (
        f'SELECT {P}, {", ".join((time, *sides))}, "arrivals" + 1 AS "arrivals", late\n'
        f"FROM {join.name('raised')}\nUNION ALL\n"
        f"SELECT {P}, {columns}, late FROM {moved} ANTI JOIN {join.name('raised')} USING ({P})"
    )
    tail = "".join(f", NULL AS {name}" for name in join.tail)
    carried = "".join(f", {name}" for name in join.tail)
    moments = (
        f'SELECT {P}, "$time", {ARRIVAL}, {ORIGIN}{carried} FROM {join.name("moments_risen")}\n'
        f'UNION ALL\nSELECT {P}, "$time", "arrivals", {_LAST}{tail} FROM {join.name("raised")}'
    )
    return (
        Sql(f"{label}_raised", raised),
        Sql(f"{clock}_new", new),
        Sql(f"{label}_moments", moments),
    )


def released_text(join: Join, side: Side) -> str:
    """Rows that stayed without a match."""
    x = side.alias
    order = ('f."$at"', "FALSE", f"{x}.{RT}", f"{x}.{ARRIVAL}")
    return (
        f"{select(join, (side,), 'f', f'{x}.{RT}', order)}\n"
        f"  FROM {join.name('fate')} f JOIN {known(join, side)} {x}\n"
        f'  ON f."$at" IS NOT NULL AND f.{P} = {x}.{P} AND f.{ARRIVAL} = {x}.{ARRIVAL}'
    )

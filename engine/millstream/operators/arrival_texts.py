"""The steps of `arrival_sequence` as SQL, which EXPLAIN shows: the rows are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from millstream.model.batch import PART, ROWTIME, SEQ
from millstream.operators.arrival_sequence import ARRIVAL, CLOCK, LEFT, ORIGIN, RIGHT
from millstream.operators.relation import quoted
from millstream.operators.sql import identifier

P, SQ, RT = (identifier(name) for name in (PART, SEQ, ROWTIME))
_ARRIVAL, _ORIGIN = identifier(ARRIVAL), identifier(ORIGIN)
TIME, LEFT_TIME, RIGHT_TIME, ARRIVALS = quoted(CLOCK)


@dataclass(frozen=True, slots=True)
class ArrivalTexts:
    """The relations of one join: the inputs of both sides, the stored clock, the timeline. In SQL
    the latter also has `$seq` and the carried columns: Python steps find them by position."""

    left: str
    right: str
    clock: str
    line: str
    retention: int
    carried: Sequence[str]


def timeline_text(names: ArrivalTexts) -> str:
    """`arrival_sequence.timeline`."""
    kept = ", ".join((P, SQ, RT, _ORIGIN, *quoted(names.carried)))
    both = "\n  UNION ALL\n  ".join(
        f'SELECT {side}::BIGINT AS "$side", {kept} FROM {identifier(rows)}'
        for side, rows in ((LEFT, names.left), (RIGHT, names.right))
    )
    ordered = (
        f'SELECT b.*, {_newest("TRUE", TIME)} AS "$time",\n'
        f'  {_newest(_of(LEFT), LEFT_TIME)} AS "$left",\n'
        f'  {_newest(_of(RIGHT), RIGHT_TIME)} AS "$right",\n'
        f'  coalesce(c.{TIME}, -1) AS "$before",\n'
        f"  coalesce(c.{ARRIVALS}, 0) + row_number() OVER w - 1 AS {_ARRIVAL}\n"
        f"FROM (\n  {both}\n) b LEFT JOIN {identifier(names.clock)} c ON b.{P} = c.{P}\n"
        f'WINDOW w AS (PARTITION BY b.{P} ORDER BY b.{_ORIGIN}, b.{SQ}, b."$side"\n'
        "  ROWS UNBOUNDED PRECEDING)"
    )
    rises = f'"$time" > lag("$time", 1, "$before") OVER (PARTITION BY {P} ORDER BY {_ARRIVAL})'
    sides = (
        f'SELECT *, {rises} AS "$rises",\n'
        f'  CASE WHEN {_of(LEFT)} THEN "$left" ELSE "$right" END AS "$own",\n'
        f'  CASE WHEN {_of(LEFT)} THEN "$right" ELSE "$left" END AS "$other"\n'
        f"FROM (\n{ordered}\n)"
    )
    return (
        f'SELECT *, {RT} >= "$own" - {names.retention} AS "$kept",\n'
        f'  "$other" - {names.retention} AS "$low"\nFROM (\n{sides}\n)'
    )


def _of(side: int) -> str:
    return f'"$side" = {side}'


def _newest(condition: str, stored: str) -> str:
    """The highest time so far of the rows of a side, or of both."""
    return f"greatest(max(CASE WHEN {condition} THEN b.{RT} END) OVER w, coalesce(c.{stored}, -1))"


def placed_text(names: ArrivalTexts, rows: str, side: int) -> str:
    """`arrival_sequence.placed`."""
    return (
        f'SELECT b.*, l.{_ARRIVAL}, l."$time", l."$kept", l."$low"\n'
        f"FROM {identifier(rows)} b JOIN {identifier(names.line)} l\n"
        f"ON l.{P} = b.{P} AND l.{SQ} = b.{SQ} AND l.{_of(side)}"
    )


def moments_text(names: ArrivalTexts) -> str:
    """`arrival_sequence.moments`."""
    listed = ", ".join((P, '"$time"', _ARRIVAL, _ORIGIN, *quoted(names.carried)))
    return f'SELECT {listed}\nFROM {identifier(names.line)}\nWHERE "$rises"'


def clock_text(names: ArrivalTexts) -> str:
    """`arrival_sequence.clock_after`."""
    left = f'CASE WHEN {_of(LEFT)} THEN "$own" ELSE "$other" END'
    right = f'CASE WHEN {_of(LEFT)} THEN "$other" ELSE "$own" END'
    times = zip(('"$time"', left, right), (TIME, LEFT_TIME, RIGHT_TIME), strict=True)
    newest = ",\n  ".join(f"arg_max({text}, {_ARRIVAL}) AS {name}" for text, name in times)
    return (
        f"SELECT {P},\n  {newest},\n  max({_ARRIVAL}) + 1 AS {ARRIVALS},\n"
        f'  count(*) FILTER (WHERE NOT "$kept") AS late\n'
        f"FROM {identifier(names.line)}\nGROUP BY {P}"
    )

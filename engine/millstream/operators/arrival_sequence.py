"""Orders the rows of two streams by arrival and determines what each row finds.

A row arrives after all rows of either side that have lower numbers. Its `$arrival` is a number that
grows with every row a partition has ever seen on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.model.batch import PART, ROWTIME, SEQ

ARRIVAL, ORIGIN = "$arrival", "$origin"
LEFT, RIGHT = 0, 1
CLOCK = ("time", "left", "right", "arrivals")
"""The stored state of a partition: stream time, the newest time of either side, the next
`$arrival`."""
Ints = np.ndarray[Any, np.dtype[np.int64]]
Step = Callable[[Mapping[str, pa.Table]], pa.Table]


@dataclass(slots=True)
class _Timeline:
    """All rows of a run, the left ones first. `time`: stream time, including the row's own time;
    `own` and `other`: the newest time of the row's side (including itself) and of the other one."""

    part: Ints
    side: Ints
    rowtime: Ints
    origin: Ints
    arrival: Ints = field(init=False)
    time: Ints = field(init=False)
    own: Ints = field(init=False)
    other: Ints = field(init=False)
    rises: Ints = field(init=False)

    def __post_init__(self) -> None:
        for name in ("arrival", "time", "own", "other", "rises"):
            setattr(self, name, np.zeros(len(self.part), np.int64))


def timeline(left: str, right: str, clock: str, retention: int) -> Step:
    """`$arrival` of each row, stream time (`$time`), whether that rose with the row (`$rises`), the
    newest time of the row's own side (`$own`), whether the row must be stored (`$kept`), and the
    lowest time that is still stored of the other side (`$low`)."""

    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        rows = _rows(relations[left], relations[right])
        known = {entry[PART]: entry for entry in relations[clock].to_pylist()}
        seq = _both(relations[left], relations[right], SEQ)
        order = np.lexsort((seq, rows.origin))
        for number in np.unique(rows.part).tolist():
            own = order[rows.part[order] == number]
            _go(rows, own, known.get(number, {}))
        columns = {
            PART: rows.part.astype(np.int32),
            "$side": rows.side,
            ORIGIN: rows.origin,
            ARRIVAL: rows.arrival,
            "$time": rows.time,
            "$rises": rows.rises == 1,
            "$own": rows.own,
            "$other": rows.other,
            "$kept": rows.rowtime >= rows.own - retention,
            "$low": rows.other - retention,
        }
        return pa.table(columns)

    return run


def _both(left: pa.Table, right: pa.Table, name: str) -> Ints:
    return np.concatenate([left[name].to_numpy(), right[name].to_numpy()])


def _rows(left: pa.Table, right: pa.Table) -> _Timeline:
    side = np.repeat(np.array([LEFT, RIGHT]), [left.num_rows, right.num_rows])
    columns = (_both(left, right, name) for name in (ROWTIME, ORIGIN))
    return _Timeline(_both(left, right, PART), side, *columns)


def _go(rows: _Timeline, at: Ints, known: Mapping[str, int]) -> None:
    """Process the rows of one partition; `at` holds their indexes in arrival order."""
    before, *newest = (known.get(name, -1) for name in CLOCK[:3])
    rowtime, side = rows.rowtime[at], rows.side[at]
    time = np.maximum.accumulate(np.maximum(rowtime, before))
    left, right = (
        np.maximum.accumulate(np.maximum(np.where(side == which, rowtime, -1), newest[which]))
        for which in (LEFT, RIGHT)
    )
    rows.time[at] = time
    rows.rises[at] = np.diff(time, prepend=before) > 0
    rows.own[at] = np.where(side == LEFT, left, right)
    rows.other[at] = np.where(side == LEFT, right, left)
    rows.arrival[at] = known.get(CLOCK[3], 0) + np.arange(len(at))


def placed(rows: str, line: str, side: int) -> Step:
    """The rows of one side with their columns of the timeline."""

    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        given, every = relations[rows], relations[line]
        start = 0 if side == LEFT else every.num_rows - given.num_rows
        own = every.slice(start, given.num_rows)
        for name in (ARRIVAL, "$time", "$kept", "$low"):
            given = given.append_column(name, own[name])
        return given

    return run


def kept(rows: str) -> Step:
    """The rows that must be stored."""

    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        return relations[rows].filter(relations[rows]["$kept"])

    return run


def moments(left: str, right: str, line: str, carried: Sequence[str]) -> Step:
    """The rows that advance stream time: the new time, arrival, origin and the other carried
    columns."""

    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        every = relations[line]
        names = [PART, "$time", ARRIVAL, ORIGIN]
        found = every.select(names)
        for column in carried:
            both = [relations[name][column].combine_chunks() for name in (left, right)]
            found = found.append_column(column, pa.chunked_array(both))
        return found.filter(every["$rises"])

    return run


def clock_after(line: str) -> Step:
    """The clock of each partition after the run, and how many rows came too late to be stored."""

    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        every = relations[line]
        part, arrival = (every[name].to_numpy() for name in (PART, ARRIVAL))
        order = np.lexsort((arrival, part))
        last = order[np.append(np.diff(part[order]) != 0, True)] if len(order) else order
        end = every.take(pa.array(last))
        side = end["$side"].to_numpy()
        own, other = end["$own"].to_numpy(), end["$other"].to_numpy()
        missed = part[~every["$kept"].to_numpy(zero_copy_only=False)]
        columns = {
            PART: end[PART],
            CLOCK[0]: end["$time"],
            CLOCK[1]: np.where(side == LEFT, own, other),
            CLOCK[2]: np.where(side == LEFT, other, own),
            CLOCK[3]: end[ARRIVAL].to_numpy() + 1,
            "late": np.array([np.count_nonzero(missed == p) for p in part[last]], np.int64),
        }
        return pa.table(columns)

    return run

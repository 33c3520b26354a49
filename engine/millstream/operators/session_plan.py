"""Assigns rows to sessions by keys and times alone, before any state is computed.

A *chain* is a session while rows only extend it. Where a row joins two sessions they become one and
a new chain begins, whose state starts as the merge of theirs: its `generation` is one more than the
higher of theirs, and chains of one generation are computed together.

Rows and stored sessions of a key that lie further apart than the gap never merge, so they are
divided into *islands* first. In most islands every row touches the session so far; there the
session is the running hull of the rows, computed for all such islands at once. The others (a row
that starts a second session, merges two or is late) are processed row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.model.batch import ROWTIME, SEQ

Ints = np.ndarray[Any, np.dtype[np.int64]]
Marks = np.ndarray[Any, np.dtype[np.bool_]]
PLAN = pa.schema(
    [
        pa.field(SEQ, pa.int64()),
        pa.field("$chain", pa.int64()),
        pa.field("$generation", pa.int64()),
        pa.field("$a", pa.int64()),
        pa.field("$b", pa.int64()),
        pa.field("WINDOWSTART", pa.int64()),
        pa.field("WINDOWEND", pa.int64()),
        *(
            pa.field(f"$old{side}_{name}", pa.int64())
            for side in (1, 2)
            for name in ("start", "end", "chain", "seq")
        ),
    ]
)
"""One row for each row that is not late: its session after it; `$a`, `$b` the chains that merge; up
to two sessions that it replaces, each with its chain and the last row of that (-1: as stored)."""


@dataclass(frozen=True, slots=True)
class _Elements:
    """Stored sessions (first) and rows, sorted by island and, within it, by arrival."""

    island: Ints
    low: Ints
    high: Ints
    number: Ints
    """The chain of a stored session, or the `$seq` of a row."""
    closing: Ints
    """Sessions that end before it are closed at this row."""
    stored: Marks

    def where(self, chosen: Marks) -> _Elements:
        """Some of them."""
        return _Elements(
            self.island[chosen],
            self.low[chosen],
            self.high[chosen],
            self.number[chosen],
            self.closing[chosen],
            self.stored[chosen],
        )


def session_plan(
    rows: str, stored: str, gap: int, grace: int, *, paired: bool = False
) -> Callable[[Mapping[str, pa.Table]], pa.Table]:
    """The function of a Call: from rows in `$seq` order (with `$group` and `$time`) and stored
    sessions (with `$group` and `$chain`). `paired`: a row also replaces the session that keeps its
    bounds, which happens when the session consists of one moment."""

    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        known, given = relations[stored], relations[rows]
        elements = _elements(known, given, gap, grace)
        if given.num_rows == 0:
            return PLAN.empty_table()
        before, plain = _hulls(elements, gap)
        chains = _Chains(known.num_rows, paired)
        whole = plain[elements.island]
        fast = _joined(elements.where(whole), _Hull(before.low[whole], before.high[whole]), chains)
        if whole.all():
            return fast
        return pa.concat_tables([fast, _row_by_row(elements.where(~whole), gap, chains)])

    return run


def _ints(table: pa.Table, name: str) -> Ints:
    values: Ints = table[name].to_numpy().astype(np.int64, copy=False)
    return values


def _elements(known: pa.Table, given: pa.Table, gap: int, grace: int) -> _Elements:
    group = np.concatenate([_ints(known, "$group"), _ints(given, "$group")])
    times = _ints(given, ROWTIME)
    low = np.concatenate([_ints(known, "WINDOWSTART"), times])
    high = np.concatenate([_ints(known, "WINDOWEND"), times])
    number = np.concatenate([_ints(known, "$chain"), _ints(given, SEQ)])
    closing = np.concatenate([np.zeros(known.num_rows, np.int64), _ints(given, "$time")])
    stored = np.arange(len(group)) < known.num_rows
    by_time = np.lexsort((low, group))
    first = _changes(group[by_time])
    reach = _running_max(high[by_time], np.cumsum(first) - 1)
    apart = low[by_time][1:] - reach[:-1] > gap
    first[1:] |= apart
    island = np.empty(len(group), np.int64)
    island[by_time] = np.cumsum(first) - 1
    order = np.argsort(island, kind="stable")
    elements = _Elements(island, low, high, number, closing - (gap + grace), stored)
    return elements.where(order)  # type: ignore[arg-type]


def _changes(values: Ints) -> Marks:
    """Where a value differs from the one before (the first one does)."""
    marks = np.ones(len(values), np.bool_)
    marks[1:] = values[1:] != values[:-1]
    return marks


def _running_max(values: Ints, group: Ints) -> Ints:
    """The highest value so far within each group; groups ascend from 0."""
    distinct, rank = np.unique(values, return_inverse=True)
    within = group * len(distinct) + rank.reshape(-1)
    result: Ints = distinct[np.maximum.accumulate(within) - group * len(distinct)]
    return result


@dataclass(frozen=True, slots=True)
class _Hull:
    low: Ints
    high: Ints


def _hulls(elements: _Elements, gap: int) -> tuple[_Hull, Marks]:
    """The hull of all elements of an island before each one, undefined for its first one; and for
    each island whether its rows touch that hull, in time, one after the other."""
    island = elements.island
    first = _changes(island)
    low = -_running_max(-elements.low, island)
    high = _running_max(elements.high, island)
    before = _Hull(np.roll(low, 1), np.roll(high, 1))
    time = elements.high
    open_ = np.where(first, time, before.high) >= elements.closing
    near = first | ((time >= before.low - gap) & (time <= before.high + gap))
    good = np.where(elements.stored, first, near & open_)
    plain = np.ones(int(island[-1]) + 1 if len(island) else 0, np.bool_)
    plain[island[~good]] = False
    return before, plain


def _joined(elements: _Elements, before: _Hull, chains: _Chains) -> pa.Table:
    """Islands of one chain each."""
    first = _changes(elements.island)
    own = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    from_stored = elements.stored[starts]
    chain = np.where(from_stored, elements.number[starts], 0)
    fresh = int(np.count_nonzero(~from_stored))
    chain[~from_stored] = chains.following + np.arange(fresh)
    chains.following += fresh
    rows = ~elements.stored
    time, of_row = elements.high[rows], chain[own[rows]]
    old_start, old_end, opens = before.low[rows], before.high[rows], first[rows]
    start = np.where(opens, time, np.minimum(old_start, time))
    end = np.where(opens, time, np.maximum(old_end, time))
    previous = np.where(np.roll(elements.stored, 1), -1, np.roll(elements.number, 1))[rows]
    none = opens if chains.paired else opens | ((old_start == time) & (old_end == time))
    zero = np.zeros(len(time), np.int64)
    empty = pa.nulls(len(time), pa.int64())
    columns = [elements.number[rows], of_row, zero, zero - 1, zero - 1, start, end]
    olds = [pa.array(old, mask=none) for old in (old_start, old_end, of_row, previous)]
    arrays = [*map(pa.array, columns), *olds, empty, empty, empty, empty]
    return pa.Table.from_arrays(arrays, schema=PLAN)


# ---- row by row ---------------------------------------------------------------------------------


@dataclass(slots=True)
class _Session:
    start: int
    end: int
    chain: int
    generation: int = 0
    seq: int = -1


@dataclass(slots=True)
class _Chains:
    """Chain numbers: stored sessions already have one."""

    following: int
    paired: bool
    rows: list[tuple[int | None, ...]] = field(default_factory=list)


def _row_by_row(elements: _Elements, gap: int, chains: _Chains) -> pa.Table:
    own: list[_Session] = []
    current = -1
    columns = (
        elements.island,
        elements.low,
        elements.high,
        elements.number,
        elements.closing,
        elements.stored,
    )
    for island, low, high, number, closing, stored in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        if island != current:
            own, current = [], island
        if stored:
            own.append(_Session(low, high, number))
        else:
            _place(own, number, low, closing, gap, chains)
    arrays = list(zip(*chains.rows, strict=True)) or [()] * len(PLAN)
    return pa.Table.from_arrays([pa.array(values, pa.int64()) for values in arrays], schema=PLAN)


def _place(
    own: list[_Session], seq: int, time: int, closing: int, gap: int, chains: _Chains
) -> None:
    """Add one row to the sessions of its key, unless it is late."""
    near = sorted(
        (
            session
            for session in own
            if session.start - gap <= time <= session.end + gap and session.end >= closing
        ),
        key=lambda session: session.start,
    )
    start = min([time, *(session.start for session in near)])
    end = max([time, *(session.end for session in near)])
    if end < closing:
        return
    old: list[int | None] = []
    for session in near:
        if chains.paired or (session.start, session.end) != (time, time) or len(near) > 1:
            old += [session.start, session.end, session.chain, session.seq]
    old += [None] * (8 - len(old))
    a, b = -1, -1
    if len(near) == 1:
        (session,) = near
    else:
        generation = 0
        if near:
            a, b = (session.chain for session in near)
            generation = 1 + max(session.generation for session in near)
        session = _Session(start, end, chains.following, generation)
        chains.following += 1
        own[:] = [*(other for other in own if other not in near), session]
    session.start, session.end, session.seq = start, end, seq
    chains.rows.append((seq, session.chain, session.generation, a, b, start, end, *old))

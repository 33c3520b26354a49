"""Which row belongs to which session: decided by keys and times alone, before any state.

A *chain* is a session as long as rows only join it. Where a row joins two sessions they become one
and a new chain begins, whose state starts as the merge of theirs: its `generation` is one more
than the higher of theirs, and chains of one generation are computed together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.model.batch import ROWTIME, SEQ

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
"""One row for each row that counts: its session after it; `$a`, `$b` the chains that merge; up to
two sessions that it replaces, each with its chain and the last row of that (-1: as stored)."""


@dataclass(slots=True)
class _Session:
    start: int
    end: int
    chain: int
    generation: int = 0
    seq: int = -1


@dataclass(slots=True)
class _Chains:
    """Chain numbers: stored sessions have theirs already."""

    following: int
    rows: list[tuple[int | None, ...]] = field(default_factory=list)


def session_plan(
    rows: str, stored: str, gap: int, grace: int
) -> Callable[[Mapping[str, pa.Table]], pa.Table]:
    """The function of a Call: from rows in `$seq` order (with `$group` and `$time`) and stored
    sessions (with `$group` and `$chain`)."""

    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        known = relations[stored]
        sessions: dict[int, list[_Session]] = {}
        columns = ("$group", "WINDOWSTART", "WINDOWEND", "$chain")
        for group, *bounds in zip(*(known[name].to_pylist() for name in columns), strict=True):
            sessions.setdefault(group, []).append(_Session(*bounds))
        chains = _Chains(known.num_rows)
        given = relations[rows]
        names = ("$group", SEQ, ROWTIME, "$time")
        for group, seq, time, now in zip(*(given[name].to_pylist() for name in names), strict=True):
            own = sessions.setdefault(group, [])
            _place(own, seq, time, now - gap - grace, gap, chains)
        arrays = list(zip(*chains.rows, strict=True)) or [()] * len(PLAN)
        return pa.Table.from_arrays(
            [pa.array(values, pa.int64()) for values in arrays], schema=PLAN
        )

    return run


def _place(
    own: list[_Session], seq: int, time: int, closing: int, gap: int, chains: _Chains
) -> None:
    """Put one row into the sessions of its key, unless it is late."""
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
        if (session.start, session.end) != (time, time) or len(near) > 1:
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

"""The plan of sessions: islands computed at once come to what going row by row gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.operators.session_plan import session_plan
from tests.draws import draws

GAP, GRACE = 5, 3
Session = tuple[int, int, int, int]
"""start, end, chain, last row."""


def rows_of(records: list[tuple[int, int]], clock: int = -1) -> pa.Table:
    """(group, time) of each record; the stream time goes with them."""
    times = []
    for _, time in records:
        clock = max(clock, time)
        times.append(clock)
    return pa.table(
        {
            "$group": pa.array([group for group, _ in records], pa.int64()),
            "$seq": pa.array(range(len(records)), pa.int64()),
            "$rowtime": pa.array([time for _, time in records], pa.int64()),
            "$time": pa.array(times, pa.int64()),
        }
    )


def stored_of(sessions: list[tuple[int, int, int]]) -> pa.Table:
    """(group, start, end) of each."""
    groups, starts, ends = zip(*sessions, strict=True) if sessions else ((), (), ())
    return pa.table(
        {
            "$group": pa.array(groups, pa.int64()),
            "WINDOWSTART": pa.array(starts, pa.int64()),
            "WINDOWEND": pa.array(ends, pa.int64()),
            "$chain": pa.array(range(len(sessions)), pa.int64()),
        }
    )


def planned(stored: pa.Table, rows: pa.Table) -> list[dict[str, Any]]:
    found = session_plan("r", "s", GAP, GRACE)({"r": rows, "s": stored})
    return sorted(found.to_pylist(), key=lambda row: row["$seq"])


def naive(stored: pa.Table, rows: pa.Table) -> dict[int, tuple[Any, ...]]:
    """seq -> (start, end, replaced (start, end, last row), ...), one row after the other."""
    sessions: dict[int, list[tuple[int, int, int]]] = {}
    for row in stored.to_pylist():
        own = sessions.setdefault(row["$group"], [])
        own.append((row["WINDOWSTART"], row["WINDOWEND"], -1))
    result: dict[int, tuple[Any, ...]] = {}
    for row in rows.to_pylist():
        time, closing = row["$rowtime"], row["$time"] - GAP - GRACE
        own = sessions.setdefault(row["$group"], [])
        near = sorted(s for s in own if s[0] - GAP <= time <= s[1] + GAP and s[1] >= closing)
        start, end = min([time, *(s[0] for s in near)]), max([time, *(s[1] for s in near)])
        if end < closing:
            continue
        own[:] = [*(s for s in own if s not in near), (start, end, row["$seq"])]
        alone = len(near) == 1 and near[0][:2] == (time, time)
        result[row["$seq"]] = (start, end, *(() if alone else near))
    return result


def told(row: dict[str, Any]) -> tuple[Any, ...]:
    olds = [
        tuple(row[f"$old{side}_{name}"] for name in ("start", "end", "seq"))
        for side in (1, 2)
        if row[f"$old{side}_start"] is not None
    ]
    return (row["WINDOWSTART"], row["WINDOWEND"], *olds)


records = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 80)), max_size=30)
later = st.lists(st.tuples(st.integers(0, 2), st.integers(40, 110)), max_size=30)


@settings(max_examples=draws(300), database=None)
@given(earlier=records, records=later)
def test_islands_come_to_what_row_by_row_gives(
    earlier: list[tuple[int, int]], records: list[tuple[int, int]]
) -> None:
    before = rows_of(earlier)
    sessions: dict[int, tuple[int, int, int]] = {}
    for row in planned(stored_of([]), before):
        group = earlier[row["$seq"]][0]
        for merged in (row["$a"], row["$b"]):
            sessions.pop(merged, None)
        sessions[row["$chain"]] = (group, row["WINDOWSTART"], row["WINDOWEND"])
    stored = stored_of(list(sessions.values()))
    rows = rows_of(records, max((time for _, time in earlier), default=-1))
    found = planned(stored, rows)
    assert {row["$seq"]: told(row) for row in found} == naive(stored, rows)
    check_chains(found, stored)


def check_chains(found: list[dict[str, Any]], stored: pa.Table) -> None:
    """A replaced session's chain is the one whose last row it names; merges come later."""
    ends = {(row["$chain"], row["$seq"]): (row["WINDOWSTART"], row["WINDOWEND"]) for row in found}
    for row in stored.to_pylist():
        ends[row["$chain"], -1] = (row["WINDOWSTART"], row["WINDOWEND"])
    generations = {row["$chain"]: row["$generation"] for row in found}
    for row in found:
        for side in (1, 2):
            start, end, chain, seq = (
                row[f"$old{side}_{name}"] for name in ("start", "end", "chain", "seq")
            )
            if start is not None:
                assert ends[chain, seq] == (start, end)
        if row["$a"] >= 0:
            merged = (row["$a"], row["$b"])
            assert row["$generation"] > max(generations.get(chain, 0) for chain in merged)


def test_an_island_is_one_chain_where_rows_touch_it() -> None:
    found = planned(stored_of([(0, 1, 4)]), rows_of([(0, 8), (1, 9), (0, 6), (1, 30)]))
    assert [(row["$seq"], row["$chain"], *told(row)) for row in found] == [
        (0, 0, 1, 8, (1, 4, -1)),
        (1, 1, 9, 9),
        (2, 0, 1, 8, (1, 8, 0)),
        (3, 2, 30, 30),
    ]


def test_a_row_between_two_sessions_merges_them() -> None:
    found = planned(stored_of([]), rows_of([(0, 1), (0, 8), (0, 5)]))
    assert told(found[2]) == (1, 8, (1, 1, 0), (8, 8, 1))
    assert (found[2]["$generation"], found[2]["$a"], found[2]["$b"]) == (1, 0, 1)

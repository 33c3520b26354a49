"""Cut the input anywhere: the rows stay the same, and they are those of a naive reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.model.expressions import (
    AggregateCall,
    Arithmetic,
    ColumnRef,
    Compare,
    Expression,
    Literal,
)
from millstream.model.schema import Column, Role, Schema, SourceKind, WindowedKey, WindowKind
from millstream.model.types import BIGINT, INTEGER, STRING
from millstream.plan import nodes as n
from millstream.testing.drawn import Line
from millstream.topology.topology import SubTopology
from tests.draws import draws
from tests.properties.hosted import K, Row, V, read, run, run_cut, subtopology

START, END = (Column(name, BIGINT, Role.KEY) for name in ("WINDOWSTART", "WINDOWEND"))


def column(item: Column) -> ColumnRef:
    return ColumnRef(item.name, item.type)


def number(value: int) -> Literal:
    return Literal(value, INTEGER)


def windowed_key(key: str, start: int) -> bytes:
    return key.encode() + start.to_bytes(8, "big")


# --- the programs, each with a reference that handles one record at a time -----------------------


def stateless() -> n.Node:
    kept = n.Filter(read("S", SourceKind.STREAM), Compare(">", column(V), number(1)))
    values: tuple[Expression, ...] = (
        column(K),
        Arithmetic("+", column(V), number(2_147_483_644), INTEGER),
    )
    return n.Project(kept, values, Schema((K, Column("X", INTEGER))))


def stateless_reference(lines: Sequence[Line]) -> list[Row]:
    rows: list[Row] = []
    for line in lines:
        if line.values and line.values[0] is not None and line.values[0] > 1:
            total = line.values[0] + 2_147_483_644
            total = total if total < 2**31 else total - 2**32
            rows.append((line.key and line.key.encode(), (total,), line.time))
    return rows


COUNT = AggregateCall("COUNT", 0, (), (), BIGINT)
MAX = AggregateCall("MAX", 0, (column(V),), (), INTEGER)


def counted(given: n.Node) -> n.Aggregate:
    schema = Schema((K, Column("C", BIGINT), Column("M", INTEGER)))
    return n.Aggregate(given, (("C", COUNT), ("M", MAX)), None, False, schema)


def aggregated_reference(lines: Sequence[Line]) -> list[Row]:
    state: dict[str, tuple[int, Any, int]] = {}
    rows: list[Row] = []
    for line in lines:
        if line.key is None or line.values is None:
            continue
        count, top, newest = state.get(line.key, (0, None, 0))
        values = [v for v in (top, line.values[0]) if v is not None]
        current = (count + 1, max(values, default=None), max(newest, line.time))
        state[line.key] = current
        rows.append((line.key.encode(), current[:2], current[2]))
    return rows


def having() -> n.Node:
    test = Compare("=", ColumnRef("C", BIGINT), Literal(2, BIGINT))
    return n.Filter(counted(read("S", SourceKind.STREAM)), test)


def having_reference(lines: Sequence[Line]) -> list[Row]:
    rows: list[Row] = []
    shown: set[bytes] = set()
    for key, values, time in aggregated_reference(lines):
        if values[0] == 2:
            rows.append((key, values, time))
            shown.add(key)
        elif key in shown:
            rows.append((key, None, time))
            shown.discard(key)
    return rows


def grouped_table() -> n.Node:
    """A table grouped by its value: rows leave one group and enter another."""
    table = read("T", SourceKind.TABLE, materialised=True)
    group = Column("G", INTEGER, Role.KEY)
    by_value = n.Project(table, (column(V), column(V)), Schema((group, V)))
    total = AggregateCall("SUM", 0, (column(V),), (), INTEGER)
    schema = Schema((group, Column("C", BIGINT), Column("T", INTEGER)))
    return n.Aggregate(by_value, (("C", COUNT), ("T", total)), None, False, schema)


def grouped_table_reference(lines: Sequence[Line]) -> list[Row]:
    current: dict[str, Any] = {}
    groups: dict[int, tuple[int, int, int]] = {}
    rows: list[Row] = []
    for line in lines:
        if line.key is None:
            continue
        old = current.pop(line.key, None)
        new = None
        if line.values is not None:
            new = line.values[0]
            current[line.key] = new
        changes = [(g, d) for g, d in ((old, -1), (new, 1)) if g is not None]
        if old is not None and old == new:
            changes = [(old, 0)]
        for group, diff in changes:
            count, total, newest = groups.get(group, (0, 0, 0))
            groups[group] = (count + diff, total + diff * group, max(newest, line.time))
            key = group.to_bytes(4, "big", signed=True)
            rows.append((key, groups[group][:2], groups[group][2]))
    return rows


def windowed(
    kind: WindowKind, advance: int | None, grace: int, *, final: bool, forgetful: bool = False
) -> n.Node:
    window = n.Window(kind, 10, advance, grace, forgetful=forgetful)
    schema = Schema((K, START, END, Column("C", BIGINT)))
    return n.Aggregate(read("S", SourceKind.STREAM), (("C", COUNT),), window, final, schema)


def windowed_reference(
    advance: int, grace: int, *, final: bool, forgetful: bool = False
) -> Callable[[Sequence[Line]], list[Row]]:
    def reference(lines: Sequence[Line]) -> list[Row]:
        state: dict[tuple[int, str], tuple[int, int]] = {}
        closed: set[tuple[int, str]] = set()
        rows: list[Row] = []
        stream_time = -1
        for line in lines:
            if line.key is None or line.values is None:
                continue
            stream_time = max(stream_time, line.time)
            for start in range(0, line.time + 1, advance):
                if start + 10 <= line.time or start + 10 <= stream_time - grace:
                    continue
                count, newest = state.get((start, line.key), (0, 0))
                state[start, line.key] = (count + 1, max(newest, line.time))
                if not final:
                    count, newest = state[start, line.key]
                    rows.append((windowed_key(line.key, start), (count,), newest))
            for start, key in sorted(state.keys() - closed) if final else ():
                if start + 10 + grace <= stream_time:
                    closed.add((start, key))
                    if forgetful and start < stream_time // advance * advance - 10 - grace:
                        continue
                    count, newest = state[start, key]
                    rows.append((windowed_key(key, start), (count,), newest))
        return rows

    return reference


PROGRAMS: dict[str, tuple[SubTopology, Callable[[Sequence[Line]], list[Row]]]] = {
    "stateless": (subtopology(stateless()), stateless_reference),
    "aggregate": (subtopology(counted(read("S", SourceKind.STREAM))), aggregated_reference),
    "having": (subtopology(having()), having_reference),
    "grouped table": (subtopology(grouped_table()), grouped_table_reference),
}
for _name, _kind, _advance, _grace, _final, _forgetful in (
    ("tumbling", WindowKind.TUMBLING, None, 5, False, False),
    ("hopping", WindowKind.HOPPING, 4, 3, False, False),
    ("final", WindowKind.TUMBLING, None, 2, True, False),
    ("hopping final", WindowKind.HOPPING, 5, 0, True, False),
    ("forgetful final", WindowKind.TUMBLING, None, 2, True, True),
    ("forgetful hopping final", WindowKind.HOPPING, 5, 1, True, True),
):
    _node = windowed(_kind, _advance, _grace, final=_final, forgetful=_forgetful)
    PROGRAMS[_name] = (
        subtopology(_node, WindowedKey(_kind, 10)),
        windowed_reference(_advance or 10, _grace, final=_final, forgetful=_forgetful),
    )


def sessions(grace: int, *, final: bool) -> n.Node:
    window = n.Window(WindowKind.SESSION, 5, None, grace)
    schema = Schema((K, START, END, Column("C", BIGINT), Column("M", INTEGER)))
    given = read("S", SourceKind.STREAM)
    return n.Aggregate(given, (("C", COUNT), ("M", MAX)), window, final, schema)


def session_key(key: str, start: int, end: int) -> bytes:
    return key.encode() + end.to_bytes(8, "big") + start.to_bytes(8, "big")


def sessions_reference(grace: int, *, final: bool) -> Callable[[Sequence[Line]], list[Row]]:
    def reference(lines: Sequence[Line]) -> list[Row]:
        state: dict[str, list[tuple[int, int, int, Any]]] = {}
        closed: set[tuple[int, int, str]] = set()
        rows: list[Row] = []
        stream_time = -1
        for line in lines:
            if line.key is None or line.values is None:
                continue
            stream_time = max(stream_time, line.time)
            closing = stream_time - 5 - grace
            near = sorted(
                s
                for s in state.get(line.key, [])
                if s[0] - 5 <= line.time <= s[1] + 5 and s[1] >= closing
            )
            start = min([line.time, *(s[0] for s in near)])
            end = max([line.time, *(s[1] for s in near)])
            if end >= closing:
                tops = [s[3] for s in near] + [line.values[0]]
                top = max((v for v in tops if v is not None), default=None)
                current = (start, end, sum(s[2] for s in near) + 1, top)
                others = [s for s in state.get(line.key, []) if s not in near]
                state[line.key] = [*others, current]
                if not final:
                    for old in near:
                        if (line.time, line.time) != (start, end):
                            rows.append((session_key(line.key, *old[:2]), None, old[1]))
                    rows.append((session_key(line.key, start, end), current[2:], end))
            every = sorted((s[1], s[0], key, s) for key, own in state.items() for s in own)
            for last, first, key, session in every if final else ():
                if last < closing and (last, first, key) not in closed:
                    closed.add((last, first, key))
                    rows.append((session_key(key, first, last), session[2:], last))
        return rows

    return reference


for _name, _grace, _final in (("sessions", 3, False), ("sessions final", 2, True)):
    PROGRAMS[_name] = (
        subtopology(sessions(_grace, final=_final), WindowedKey(WindowKind.SESSION)),
        sessions_reference(_grace, final=_final),
    )

values = st.one_of(st.none(), st.integers(0, 5).map(lambda v: (v,)), st.just((None,)))
line_lists = st.lists(
    st.builds(Line, st.sampled_from(["a", "b", "c", None]), values, st.integers(0, 60), st.just(0)),
    max_size=25,
)
quickly = settings(max_examples=draws(12), database=None)


@pytest.mark.parametrize("name", PROGRAMS)
@quickly
@given(
    lines=line_lists,
    cuts=st.lists(st.integers(0, 25), max_size=4),
    restarts=st.sets(st.integers(0, 4), max_size=2),
)
def test_any_cut_and_restart_gives_the_rows_of_the_reference(
    name: str, lines: list[Line], cuts: list[int], restarts: set[int]
) -> None:
    sub, reference = PROGRAMS[name]
    assert run_cut(sub, lines, cuts, restarts) == reference(lines)


def joined(join: n.JoinKind) -> SubTopology:
    left = read("S", SourceKind.STREAM, prefix="L_")
    right = read("T", SourceKind.TABLE, prefix="R_")
    key = Column("L_K", STRING, Role.KEY)
    schema = Schema((key, Column("L_V", INTEGER), Column("R_V", INTEGER)))
    return subtopology(n.StreamTableJoin(left, right, join, schema))


def joined_reference(left: Sequence[Line], right: Sequence[Line], join: n.JoinKind) -> list[Row]:
    def timed(lines: Sequence[Line], index: int) -> list[tuple[int, int, int, Line]]:
        highest, result = -1, []
        for offset, line in enumerate(lines):
            # A record of a table without a key is unreadable: it is left out.
            if index == 1 and line.key is None:
                continue
            highest = max(highest, line.time)
            result.append((highest, index, offset, line))
        return result

    table: dict[str, Any] = {}
    rows: list[Row] = []
    for _, index, _, line in sorted(
        [*timed(left, 0), *timed(right, 1)], key=lambda row: (row[0], -row[1], row[2])
    ):
        if index == 1:
            table.pop(line.key, None)
            if line.values is not None:
                table[line.key] = line.values[0]
        elif line.values is not None and (line.key in table or join is n.JoinKind.LEFT):
            # A row of the stream without a key can only be padded.
            key = None if line.key is None else line.key.encode()
            rows.append((key, (line.values[0], table.get(line.key)), line.time))
    return rows


@pytest.mark.parametrize("join", [n.JoinKind.INNER, n.JoinKind.LEFT])
@quickly
@given(
    left=line_lists,
    right=line_lists,
    cuts=st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25)), max_size=4),
    restarts=st.sets(st.integers(0, 5), max_size=2),
)
def test_a_join_sees_the_same_rows_whatever_comes_together(
    join: n.JoinKind,
    left: list[Line],
    right: list[Line],
    cuts: list[tuple[int, int]],
    restarts: set[int],
) -> None:
    limits = limits_of(cuts, left, right)
    found = run(joined(join), {"s": left, "t": right}, limits, sorted(restarts))
    assert found == joined_reference(left, right, join)


def limits_of(
    cuts: Sequence[tuple[int, int]], left: Sequence[Line], right: Sequence[Line]
) -> list[tuple[int, int]]:
    """How far each batch reads in both inputs: the cuts of each in order, within its records."""
    sides = zip(*cuts, strict=True) if cuts else ((), ())
    one, two = (sorted(side) for side in sides)
    return [
        (min(a, max(len(left) - 1, 0)), min(b, max(len(right) - 1, 0)))
        for a, b in zip(one, two, strict=True)
    ]


def merged_reference(left: Sequence[Line], right: Sequence[Line]) -> list[Row]:
    """The records of both by the highest time so far of their topic, the first input first."""
    timed: list[tuple[int, int, int, Line]] = []
    for index, lines in enumerate((left, right)):
        highest = -1
        for offset, line in enumerate(lines):
            highest = max(highest, line.time)
            timed.append((highest, index, offset, line))
    return [
        (line.key and line.key.encode(), line.values, line.time)
        for *_, line in sorted(timed, key=lambda row: row[:3])
    ]


@quickly
@given(
    left=line_lists,
    right=line_lists,
    cuts=st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25)), max_size=4),
    restarts=st.sets(st.integers(0, 5), max_size=2),
)
def test_merged_streams_have_one_order_whatever_comes_together(
    left: list[Line],
    right: list[Line],
    cuts: list[tuple[int, int]],
    restarts: set[int],
) -> None:
    limits = limits_of(cuts, left, right)
    branches = (read("S", SourceKind.STREAM), read("T", SourceKind.STREAM))
    sub = subtopology(n.Merge(*branches, Schema((K, V))))
    found = run(sub, {"s": left, "t": right}, limits, sorted(restarts))
    assert found == merged_reference(left, right)

"""Stream-stream joins return the same as record-by-record processing, however the input is cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.model.types import INTEGER, STRING
from millstream.plan import nodes as n
from millstream.testing.drawn import Line
from millstream.topology.topology import SubTopology
from tests.draws import draws
from tests.properties.hosted import Row, read, run, streams_joined, subtopology

DAY = 24 * 60 * 60 * 1000
LEFT, RIGHT = 0, 1


@dataclass
class Entry:
    """A row that the oracle remembers."""

    key: str
    value: Any
    time: int
    number: int
    waiting: bool = False


@dataclass
class Oracle:
    """The join, one record at a time."""

    join: n.JoinKind
    within: n.Within
    buffers: tuple[list[Entry], list[Entry]] = field(default_factory=lambda: ([], []))
    waiting: list[tuple[int, Entry]] = field(default_factory=list)
    newest: list[int] = field(default_factory=lambda: [-1, -1])
    rows: list[Row] = field(default_factory=list)
    count: int = 0

    @property
    def retention(self) -> int:
        size = self.within.before_ms + self.within.after_ms
        grace = self.within.grace_ms
        return max(size, DAY) if grace is None else size + grace

    def ahead(self, side: int) -> int:
        return self.within.after_ms if side == LEFT else self.within.before_ms

    def outer(self, side: int) -> bool:
        wanted = n.JoinKind.LEFT if side == LEFT else n.JoinKind.RIGHT
        return self.join in (wanted, n.JoinKind.FULL)

    def emit(self, side: int, row: Entry, other: Entry | None) -> None:
        values = [row.value, other.value if other else None]
        time = max(row.time, other.time) if other else row.time
        self.rows.append((row.key.encode(), tuple(values if side == LEFT else values[::-1]), time))

    def take(self, side: int, line: Line) -> None:
        if line.key is None or line.values is None:
            return
        row = Entry(line.key, line.values[0], line.time, self.count)
        self.count += 1
        self.newest[side] = max(self.newest[side], row.time)
        self.release()
        matches = [entry for entry in self.buffers[1 - side] if self.meet(side, row, entry)]
        for entry in sorted(matches, key=lambda entry: (entry.time, entry.number)):
            self.emit(side, row, entry)
        self.waiting = [(s, entry) for s, entry in self.waiting if entry not in matches]
        if not matches and self.outer(side):
            late = row.time + self.ahead(side) < max(self.newest)
            if late or self.within.grace_ms is None:
                self.emit(side, row, None)
            else:
                self.waiting.append((side, row))
        self.buffers[side].append(row)

    def meet(self, side: int, row: Entry, entry: Entry) -> bool:
        left, right = (row, entry) if side == LEFT else (entry, row)
        near = left.time - self.within.before_ms <= right.time <= left.time + self.within.after_ms
        kept = entry.time >= self.newest[1 - side] - self.retention
        return left.key == right.key and near and kept

    def release(self) -> None:
        if self.within.grace_ms is None:
            return
        over = max(self.newest) - self.within.grace_ms
        for side, row in sorted(self.waiting, key=lambda item: (item[1].time, item[1].number)):
            if row.time + self.ahead(side) < over:
                self.emit(side, row, None)
                self.waiting.remove((side, row))


def arrival_order(*sides: Sequence[Line]) -> list[tuple[int, Line]]:
    """By the highest time so far in the topic, then by topic and offset."""
    keyed = []
    for side, lines in enumerate(sides):
        highest = -1
        for offset, line in enumerate(lines):
            highest = max(highest, line.time)
            keyed.append(((highest, side, offset), side, line))
    return [(side, line) for _, side, line in sorted(keyed, key=lambda item: item[0])]


values = st.one_of(st.integers(0, 99).map(lambda v: (v,)), st.just((None,)), st.none())
line_lists = st.lists(
    st.builds(Line, st.sampled_from(["a", "b", "a", None]), values, st.integers(0, 60), st.just(0)),
    max_size=25,
)
quickly = settings(max_examples=draws(12), database=None)
cut_lists = st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25)), max_size=5)
spans = st.sampled_from([0, 1, 5, 20])


def limits(cuts: list[tuple[int, int]], *sides: Sequence[Line]) -> list[tuple[int, ...]]:
    """Ascending ends for every run; the last record of each side stays for the end."""
    columns = [sorted(column) for column in zip(*cuts, strict=True)]
    return [
        tuple(min(cut, max(len(side) - 1, 0)) for cut, side in zip(row, sides, strict=True))
        for row in zip(*columns, strict=True)
    ]


@pytest.mark.parametrize("join", n.JoinKind)
@pytest.mark.parametrize("waits", [False, True])
@quickly
@given(
    left=line_lists,
    right=line_lists,
    spans=st.tuples(spans, spans),
    grace=spans,
    cuts=cut_lists,
    restarts=st.sets(st.integers(0, 5), max_size=2),
)
def test_a_join_of_streams_gives_the_rows_of_the_oracle(
    join: n.JoinKind,
    waits: bool,
    left: list[Line],
    right: list[Line],
    spans: tuple[int, int],
    grace: int,
    cuts: list[tuple[int, int]],
    restarts: set[int],
) -> None:
    within = n.Within(*spans, grace if waits else None)
    oracle = Oracle(join, within)
    for side, line in arrival_order(left, right):
        oracle.take(side, line)
    sub = subtopology(streams_joined(join, within))
    found = run(sub, {"s": left, "t": right}, limits(cuts, left, right), sorted(restarts))
    assert found == oracle.rows


def three_streams(first: n.Within, second: n.Within) -> SubTopology:
    """The pairs of two streams joined with a third one: a row may cause several pairs."""
    third = read("U", SourceKind.STREAM, prefix="U_")
    left = streams_joined(n.JoinKind.LEFT, first)
    key = Column("L_K", STRING, Role.KEY)
    further = (Column(name, INTEGER) for name in ("L_V", "R_V", "U_V"))
    return subtopology(
        n.StreamStreamJoin(left, third, n.JoinKind.LEFT, second, Schema((key, *further)))
    )


@quickly
@given(
    left=line_lists,
    right=line_lists,
    third=line_lists,
    graces=st.tuples(st.none() | spans, st.none() | spans),
    cuts=cut_lists,
)
def test_what_a_join_gives_can_be_joined_again(
    left: list[Line],
    right: list[Line],
    third: list[Line],
    graces: tuple[int | None, int | None],
    cuts: list[tuple[int, int]],
) -> None:
    first, second = (n.Within(5, 20, grace) for grace in graces)
    inner, outer = Oracle(n.JoinKind.LEFT, first), Oracle(n.JoinKind.LEFT, second)
    for side, line in arrival_order(left, right, third):
        if side == 2:
            outer.take(RIGHT, line)
            continue
        inner.take(side, line)
        for key, pair, time in inner.rows:
            outer.take(LEFT, Line(key.decode(), (pair,), time))
        inner.rows.clear()
    expected = [(key, (*pair, value), time) for key, (pair, value), time in outer.rows]
    ends = limits([(a, b, b) for a, b in cuts], left, right, third)  # type: ignore[misc]
    feeds = {"s": left, "t": right, "u": third}
    assert run(three_streams(first, second), feeds, ends) == expected

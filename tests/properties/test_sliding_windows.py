"""Sliding windows: whatever the cuts and restarts, the rows are those of a naive reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.model.expressions import ColumnRef, Compare, Literal
from millstream.model.schema import Column, Schema, SourceKind, WindowedKey, WindowKind
from millstream.model.types import BIGINT, INTEGER
from millstream.plan import nodes as n
from millstream.testing.drawn import Line
from millstream.topology.topology import SubTopology
from tests.draws import draws
from tests.properties.hosted import K, Row, read, run_cut, subtopology
from tests.properties.test_batch_invariance import (
    COUNT,
    END,
    MAX,
    START,
    line_lists,
    windowed_key,
)

SIZE = 10


def sliding(grace: int, *, final: bool = False) -> n.Aggregate:
    window = n.Window(WindowKind.SLIDING, SIZE, None, grace)
    schema = Schema((K, START, END, Column("C", BIGINT), Column("M", INTEGER)))
    stream = read("S", SourceKind.STREAM)
    return n.Aggregate(stream, (("C", COUNT), ("M", MAX)), window, final, schema)


def having(grace: int) -> n.Node:
    test = Compare("=", ColumnRef("C", BIGINT), Literal(2, BIGINT))
    return n.Filter(sliding(grace), test)


@dataclass
class Model:
    """The records of one key, and its windows by their starts, each with the records in it."""

    lines: list[Line] = field(default_factory=list)
    windows: dict[int, list[Line]] = field(default_factory=dict)

    def add(self, line: Line, oldest: int) -> list[int]:
        """The starts of the windows that change. `oldest`: that of the oldest open one."""
        behind = {each.time + 1 for each in (*self.lines, line)}
        changed = []
        for start in sorted({max(line.time - SIZE, 0), *behind, *self.windows}):
            missing = start not in self.windows
            before = [e for e in self.lines if start <= e.time <= start + SIZE]
            inside = start <= line.time <= start + SIZE
            if start >= oldest and (inside or (missing and before)):
                self.windows[start] = [*before, line] if inside else before
                changed.append(start)
        self.lines.append(line)
        return changed


def reference(
    grace: int, *, final: bool = False, only: int | None = None
) -> Callable[[Sequence[Line]], list[Row]]:
    """`only`: rows of this count, and deletions of those that have it no more."""

    def rows_of(lines: Sequence[Line]) -> list[Row]:
        keys: dict[str, Model] = {}
        closed: set[tuple[int, str]] = set()
        shown: set[bytes] = set()
        rows: list[Row] = []
        now = -1
        for line in lines:
            if line.key is None or line.values is None:
                continue
            now = max(now, line.time)
            oldest = now - grace - SIZE
            model = keys.setdefault(line.key, Model())
            if line.time + 1 < oldest:
                continue
            changed = model.add(line, oldest)
            for start in () if final else changed:
                row = result(line.key, start, model.windows[start])
                if only is None or row[1][0] == only:  # type: ignore[index]
                    shown.add(row[0])  # type: ignore[arg-type]
                    rows.append(row)
                elif row[0] in shown:
                    shown.discard(row[0])
                    rows.append((row[0], None, row[2]))
            every = sorted((s, key) for key, each in keys.items() for s in each.windows)
            for start, key in every if final else ():
                if start < oldest and (start, key) not in closed:
                    closed.add((start, key))
                    rows.append(result(key, start, keys[key].windows[start]))
        return rows

    return rows_of


def result(key: str, start: int, inside: Sequence[Line]) -> Row:
    greatest = max((v for e in inside for v in e.values or () if v is not None), default=None)
    newest = max(each.time for each in inside)
    return windowed_key(key, start), (len(inside), greatest), newest


PROGRAMS: dict[str, tuple[SubTopology, Callable[[Sequence[Line]], list[Row]]]] = {}
_KEY = WindowedKey(WindowKind.HOPPING, SIZE)
for _grace, _final in product((0, 4, 30), (False, True)):
    PROGRAMS[f"grace {_grace}{' final' if _final else ''}"] = (
        subtopology(sliding(_grace, final=_final), _KEY),
        reference(_grace, final=_final),
    )
PROGRAMS["having"] = (subtopology(having(5), _KEY), reference(5, only=2))


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=draws(25), database=None, deadline=None)
@given(
    lines=line_lists,
    cuts=st.lists(st.integers(0, 25), max_size=4),
    restarts=st.sets(st.integers(0, 4), max_size=2),
)
def test_any_cut_and_restart_gives_the_rows_of_the_reference(
    name: str, lines: list[Line], cuts: list[int], restarts: set[int]
) -> None:
    sub, expected = PROGRAMS[name]
    assert run_cut(sub, lines, cuts, restarts) == expected(lines)

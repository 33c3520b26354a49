"""Literals and keys of any text, however the input is cut, reach every step as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.model.expressions import (
    AggregateCall,
    Call,
    Case,
    ColumnRef,
    Compare,
    Expression,
    Literal,
)
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.model.types import BIGINT, STRING
from millstream.plan import nodes as n
from millstream.testing.drawn import Line
from tests.draws import draws
from tests.properties.hosted import K, Row, read, run, subtopology

PIECES = ["\n", "\r\n", "\t", " ", "'", '"', "--", "/*", "*/", "$$", "$1", "?", "%s", "{0}", "{{",
          "}}", "\\", "\0", "😀", "é", "\u2028", ";", '"in_0"', "x"]  # fmt: skip
odd_texts = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


def text(value: str) -> Literal:
    return Literal(value, STRING)


def joined(*items: Expression) -> Call:
    return Call("CONCAT", 0, items, STRING)


def column(item: Column) -> ColumnRef:
    return ColumnRef(item.name, item.type)


def marked(odd: str) -> n.Node:
    """Rows of other keys, with the text behind their key."""
    given = read("S", SourceKind.STREAM)
    kept = n.Filter(given, Compare("<>", column(K), text(odd)))
    values = (column(K), joined(column(K), text(odd)))
    # A second projection nests the text of the first one.
    first = n.Project(kept, values, Schema((K, Column("X", STRING))))
    again = (column(K), joined(ColumnRef("X", STRING), text(odd)))
    return n.Project(first, again, Schema((K, Column("X", STRING))))


def marked_rows(lines: Sequence[Line], odd: str) -> list[Row]:
    return [
        (line.key.encode(), (line.key + odd + odd,), line.time)
        for line in lines
        if line.values is not None and line.key is not None and line.key != odd
    ]


def counted(odd: str) -> n.Node:
    """The highest of texts by key, where there is another one than the odd text."""
    is_odd = Compare("=", column(K), text(odd))
    chosen = Case(((is_odd, text(odd)),), joined(text(odd), text("!")), STRING)
    highest = AggregateCall("MAX", 1, (chosen,), (), STRING)
    count = AggregateCall("COUNT", 0, (), (), BIGINT)
    schema = Schema((Column("K", STRING, Role.KEY), Column("M", STRING), Column("C", BIGINT)))
    calls = (("M", highest), ("C", count))
    grouped = n.Aggregate(read("S", SourceKind.STREAM), calls, None, False, schema)
    return n.Filter(grouped, Compare("<>", ColumnRef("M", STRING), text(odd)))


def counted_rows(lines: Sequence[Line], odd: str) -> list[Row]:
    counts: dict[str, tuple[int, int]] = {}
    rows: list[Row] = []
    for line in lines:
        if line.values is None or line.key is None or line.key == odd:
            continue
        count, newest = counts.get(line.key, (0, 0))
        counts[line.key] = (count + 1, max(newest, line.time))
        rows.append((line.key.encode(), (odd + "!", count + 1), counts[line.key][1]))
    return rows


Shape = tuple[Callable[[str], n.Node], Callable[[Sequence[Line], str], list[Row]]]
SHAPES: dict[str, Shape] = {"marked": (marked, marked_rows), "counted": (counted, counted_rows)}


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=draws(25), database=None)
@given(
    odd=odd_texts,
    drawn=st.lists(
        st.tuples(st.sampled_from(["a", "odd", None]), st.integers(0, 9), st.booleans()),
        max_size=8,
    ),
    cuts=st.lists(st.integers(0, 8), max_size=2),
    restarts=st.sets(st.integers(0, 2), max_size=1),
)
def test_any_text_is_the_same_text_whatever_the_cut(
    shape: str,
    odd: str,
    drawn: list[tuple[str | None, int, bool]],
    cuts: list[int],
    restarts: set[int],
) -> None:
    made, expected = SHAPES[shape]
    lines = [
        Line(odd if key == "odd" else key, (1,) if present else None, time)
        for key, time, present in drawn
    ]
    sub = subtopology(made(odd))
    limits = [[min(cut, len(lines))] for cut in sorted(cuts)]
    assert run(sub, {"s": lines}, limits, sorted(restarts)) == expected(lines, odd)

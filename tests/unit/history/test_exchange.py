"""Cells of several senders become one stream of rows in the order of event time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.formats.ipc import pack, unpack
from millstream.history import exchange
from millstream.history.exchange import Cell, Exchange, in_order
from millstream.model.batch import MOMENT, SEQ

SENDERS = 3
Row = tuple[int, int, int]
"""Sender, moment, number within the sender."""

rising = st.lists(st.integers(0, 9), max_size=8).map(sorted)


def cells_of(senders: list[list[int]], size: int, topic: str) -> list[Cell]:
    made = []
    for sender, moments in enumerate(senders):
        rows = [(sender, moment, number) for number, moment in enumerate(moments)]
        for number, start in enumerate(range(0, len(rows), size)):
            piece = rows[start : start + size]
            table = pa.table(
                {
                    "sender": [row[0] for row in piece],
                    MOMENT: [row[1] for row in piece],
                    "number": [row[2] for row in piece],
                }
            )
            made.append(Cell(topic, 0, piece[0][1], sender, number, pack(table)))
    return made


def rows_of(pieces: Any) -> list[Row]:
    found = []
    for records, _ in pieces:
        (content,) = records["value"].to_pylist()
        for row in unpack(content).to_pylist():
            found.append((row["sender"], row[MOMENT], row["number"]))
    return found


@given(st.lists(rising, min_size=SENDERS, max_size=SENDERS), st.integers(1, 4), st.integers(1, 9))
def test_rows_come_by_moment_and_sender(senders: list[list[int]], size: int, at_once: int) -> None:
    cells = in_order(cells_of(senders, size, "t"))
    before, exchange.MERGE_ROWS = exchange.MERGE_ROWS, at_once
    try:
        found = rows_of(Exchange(iter(cells), ["t"]).pieces("t"))
    finally:
        exchange.MERGE_ROWS = before
    every = [
        (sender, moment, number)
        for sender, moments in enumerate(senders)
        for number, moment in enumerate(moments)
    ]
    assert found == sorted(every, key=lambda row: (row[1], row[0], row[2]))


@given(st.lists(rising, min_size=SENDERS, max_size=SENDERS), st.integers(1, 4))
def test_each_topic_has_its_own_rows(senders: list[list[int]], size: int) -> None:
    cells = in_order(cells_of(senders, size, "a") + cells_of(senders[:1], size, "b"))
    shared = Exchange(iter(cells), ["a", "b"])
    assert len(rows_of(shared.pieces("b"))) == len(senders[0])
    assert len(rows_of(shared.pieces("a"))) == sum(map(len, senders))


def test_the_rows_of_a_change_stay_together() -> None:
    tables = [
        pa.table({SEQ: [0, 0, 1], MOMENT: [5, 5, 6]}),
        pa.table({SEQ: [0, 0], MOMENT: [5, 5]}),
    ]
    cells = [Cell("t", 0, 5, sender, 0, pack(table)) for sender, table in enumerate(tables)]
    ((records, _),) = Exchange(iter(cells), ["t"]).pieces("t")
    (content,) = records["value"].to_pylist()
    numbers = unpack(content)[SEQ].to_pylist()
    assert numbers == [0, 0, 1, 1, 2]
    assert all(a <= b for a, b in pairwise(numbers))

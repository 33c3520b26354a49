"""The exchange of rows between the tasks of two sub-topologies in a bounded run.

Rows are sent as cells: the rows that one run of a task sends to another task, with `$m`, the
running maximum of event time in the sending task. A task receives its cells ordered by (first `$m`,
sender, number) and merges them into the order in which the streaming engine would have written the
topic: a row is emitted once the next cell begins later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.formats.ipc import pack, unpack
from millstream.history.reading import ReadChunk
from millstream.model.batch import MOMENT, SEQ, raw_batch
from millstream.model.event_time import NEVER

MERGE_ROWS = 50_000
"""Rows to return at a time, if there are as many."""


@dataclass(frozen=True, slots=True)
class Cell:
    """An Arrow IPC batch for task `partition` of the sub-topology that reads `topic`, ascending by
    `$m` from `moment` on; the `number`th of the task `sender`."""

    topic: str
    partition: int
    moment: int
    sender: int
    number: int
    content: bytes


def in_order(cells: Iterable[Cell]) -> list[Cell]:
    """Cells in the order in which a task receives them."""
    return sorted(cells, key=lambda cell: (cell.moment, cell.sender, cell.number))


class Exchange:
    """The cells of one task, of all topics that it reads."""

    def __init__(self, cells: Iterator[Cell], topics: Iterable[str]) -> None:
        """`cells`: `in_order`."""
        self._cells = cells
        self._merges = {topic: _Merge() for topic in topics}
        self._ended = False

    def pieces(self, topic: str, offset: int = 0) -> Iterator[ReadChunk]:
        """The records of a repartition topic, from `offset` on: batches in the streaming engine's
        format."""
        merge = self._merges[topic]
        while True:
            while not self._ended and merge.ready < MERGE_ROWS:
                self._pull()
            rows = merge.take()
            if rows is None:
                return
            batch = raw_batch([(None, pack(rows, compressed=False), 0)])
            records = batch.set_column(0, batch.schema.field(0), pa.array([offset]))
            offset += 1
            yield records, offset

    def _pull(self) -> None:
        cell = next(self._cells, None)
        if cell is None:
            self._ended = True
            for merge in self._merges.values():
                merge.pass_to(None)
            return
        for merge in self._merges.values():
            merge.pass_to(cell.moment)
        self._merges[cell.topic].add(cell)


class _Merge:
    """The received rows of one topic, and which of them may be emitted."""

    def __init__(self) -> None:
        self._rows: deque[pa.Table] = deque()
        self._senders: deque[int] = deque()
        self.ready = 0
        """How many rows may be emitted."""
        self._passed: int | None = NEVER

    def add(self, cell: Cell) -> None:
        """Add the next cell."""
        self._rows.append(unpack(cell.content))
        self._senders.append(cell.sender)

    def pass_to(self, moment: int | None) -> None:
        """Note that no earlier rows will arrive (None: no rows at all)."""
        if moment is not None and moment == self._passed:
            return
        self._passed = moment
        self.ready = sum(self._allowed(rows) for rows in self._rows)

    def _allowed(self, rows: pa.Table) -> int:
        if self._passed is None:
            return int(rows.num_rows)
        return int(np.searchsorted(rows[MOMENT].to_numpy(), self._passed))

    def take(self) -> pa.Table | None:
        """The rows that may be emitted, in order; None when none are left."""
        pieces, senders, kept, kept_senders = [], [], deque[pa.Table](), deque[int]()
        for rows, sender in zip(self._rows, self._senders, strict=True):
            count = self._allowed(rows)
            if count:
                pieces.append(rows.slice(0, count))
                senders.append(sender)
            if count < rows.num_rows:
                kept.append(rows.slice(count))
                kept_senders.append(sender)
        self._rows, self._senders, self.ready = kept, kept_senders, 0
        return _merged(pieces, senders) if pieces else None


def _merged(pieces: list[pa.Table], senders: list[int]) -> pa.Table:
    """Rows by (`$m`, sender), those of one sender in the order of arrival."""
    rows = pa.concat_tables(pieces, promote_options="default")
    if len(pieces) == 1:
        return rows
    counts = [piece.num_rows for piece in pieces]
    by_sender = np.repeat(np.array(senders), counts)
    order = np.lexsort((by_sender, rows[MOMENT].to_numpy()))
    if SEQ in rows.column_names:
        rows = _renumbered(rows, np.repeat(np.arange(len(pieces)), counts), order)
    else:
        rows = rows.take(pa.array(order))
    return rows


def _renumbered(rows: pa.Table, piece: Any, order: Any) -> pa.Table:
    """Rows in `order`, renumbered: rows share a number if and only if they shared one before."""
    seq = rows[SEQ].to_numpy()[order]
    piece = piece[order]
    first = np.concatenate([[True], (seq[1:] != seq[:-1]) | (piece[1:] != piece[:-1])])
    numbers = pa.array(np.cumsum(first) - 1)
    taken = rows.take(pa.array(order))
    return taken.set_column(taken.column_names.index(SEQ), SEQ, numbers)

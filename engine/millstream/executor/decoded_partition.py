"""The decoded records of one partition that several queries read, and how far each has read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from millstream.formats.codec import OFFSET
from millstream.model.problem import Problem

UNKNOWN = -1
"""The position of a reader that has not read yet."""
FEW_BATCHES = 8
SMALL_BATCH = 512
"""More than a few batches, smaller than this on average, cost more to join than to decode again."""
PROBLEM_BYTES = 1 << 10
"""What a problem takes beside its record."""

Span = tuple[int, int]
"""Offsets from the first to the second, without the second."""


@dataclass(frozen=True, slots=True, eq=False)
class DecodedBatch:
    """The records with offsets from `first` to `stop`, decoded: those that are readable as rows,
    the others as problems. `names`: which columns of the source the table has."""

    first: int
    stop: int
    table: pa.Table
    problems: tuple[Problem, ...]
    names: frozenset[str]

    @property
    def records(self) -> int:
        """How many records there are: each is a row or a problem."""
        return int(self.table.num_rows) + len(self.problems)

    @property
    def bytes(self) -> int:
        """The memory that it takes."""
        raw = sum(len(p.raw_key or b"") + len(p.raw_value or b"") for p in self.problems)
        return int(self.table.nbytes) + raw + PROBLEM_BYTES * len(self.problems)

    def between(self, first: int, stop: int) -> DecodedBatch:
        """The part within these offsets, which shares the memory."""
        first, stop = max(first, self.first), min(stop, self.stop)
        if (first, stop) == (self.first, self.stop):
            return self
        problems = tuple(p for p in self.problems if first <= p.offset < stop)
        table = rows_between(self.table, OFFSET, (first, stop))
        return replace(self, first=first, stop=stop, table=table, problems=problems)


class DecodedPartition:
    """What was decoded of a partition and is still to be read by others. Not thread-safe."""

    def __init__(self) -> None:
        self.batches: list[DecodedBatch] = []
        """By offset; they do not overlap."""
        self.claims: list[Span] = []
        """What is being decoded now."""
        self.positions: dict[object, int] = {}
        """From which offset on each reader will read."""
        self.left_behind: set[object] = set()
        """Readers for which something was dropped that they had not read. Nothing is kept for them
        until they read again: they may be paused."""

    def waits(self, reader: object, stop: int) -> bool:
        """Whether another reader will come to the offsets before `stop`."""
        return any(
            position < stop
            for other, position in self.positions.items()
            if other is not reader and other not in self.left_behind
        )

    def active(self) -> Iterator[object]:
        """The readers that were not left behind."""
        return (reader for reader in self.positions if reader not in self.left_behind)

    def decoded(self, span: Span, names: Collection[str]) -> list[DecodedBatch]:
        """The parts of the span that are here with these columns; none if they are so small that
        decoding it again is cheaper."""
        found = [
            batch.between(*span)
            for batch in self.batches
            if _overlap(batch.first, batch.stop, span) and batch.names.issuperset(names)
        ]
        if len(found) > FEW_BATCHES and sum(p.records for p in found) < SMALL_BATCH * len(found):
            return []
        return found

    def free(self, span: Span) -> list[Span]:
        """The parts of a span that no thread is decoding."""
        spans = [span]
        for claim in self.claims:
            spans = [rest for one in spans for rest in _without(one, claim)]
        return spans

    def add(self, batch: DecodedBatch) -> list[DecodedBatch]:
        """Keep a batch; returns those that it replaces, because they overlap with it."""
        span = (batch.first, batch.stop)
        replaced = [one for one in self.batches if _overlap(one.first, one.stop, span)]
        kept = [one for one in self.batches if not _overlap(one.first, one.stop, span)]
        self.batches = sorted([*kept, batch], key=lambda one: one.first)
        return replaced

    def remove(self, batch: DecodedBatch) -> None:
        """Drop a batch to make room: its readers that have not come to it are left behind."""
        self.batches.remove(batch)
        self.left_behind |= {r for r, position in self.positions.items() if position < batch.stop}

    def passed(self) -> list[DecodedBatch]:
        """Drop what all readers have passed, and return it; everything if there is only one."""
        floor = min(self.positions.values()) if len(self.positions) > 1 else None
        dropped = [one for one in self.batches if floor is None or one.stop <= floor]
        self.batches = self.batches[len(dropped) :]
        return dropped


def rows_between(table: pa.Table, column: str, span: Span) -> pa.Table:
    """The rows whose offsets, in a column in ascending order, are within the span."""
    begin, end = np.searchsorted(table[column].to_numpy(), span).tolist()
    return table.slice(begin, end - begin)


def gaps(span: Span, batches: Sequence[DecodedBatch]) -> list[Span]:
    """The parts of a span that are in none of these batches."""
    spans = [span]
    for batch in batches:
        spans = [rest for one in spans for rest in _without(one, (batch.first, batch.stop))]
    return spans


def _overlap(first: int, stop: int, span: Span) -> bool:
    return first < span[1] and span[0] < stop


def _without(span: Span, taken: Span) -> list[Span]:
    first, stop = span
    parts = [(first, min(stop, taken[0])), (max(first, taken[1]), stop)]
    return [part for part in parts if part[0] < part[1]]

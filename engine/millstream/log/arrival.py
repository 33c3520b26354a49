"""Arrival numbers: the order in which a log receives the records of all of its topics.

The partitions of one append are ordered among each other by event time only. Its records are
numbered in the order of a reader that always takes the partition whose next record has the lowest
time; records of one time share a number. A record that a query writes keeps the number of the
record that caused it. A reader of several topics therefore reads a record next to the records
derived from it, regardless of when the query processed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.log.log import Appended
from millstream.model.batch import ARRIVAL

Numbers = npt.NDArray[np.int64]
_BLOCK_BITS = 40
"""This many bits count the records that arrive while a log is open."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The number that the next record gets. `begun`: this opening is already counted in the
    file."""

    following: int
    begun: bool = False


def after_openings(count: int) -> Arrivals:
    """For a log that was opened and written to this many times before. Each opening has its own
    block of numbers, so that no number is assigned twice and the last one need not be searched for
    in the records."""
    return Arrivals((count + 1) << _BLOCK_BITS)


def with_arrivals(
    appended: Sequence[Appended[pa.Table]], first: int
) -> tuple[list[Appended[pa.Table]], int]:
    """The batches with an arrival number for each record, those that have none numbered from
    `first` on; and the number after the last one."""
    lacking = [item.batch for item in appended if ARRIVAL not in item.batch.column_names]
    numbers = iter(_numbers(lacking, first))
    numbered = [
        item
        if ARRIVAL in item.batch.column_names
        else replace(item, batch=item.batch.append_column(ARRIVAL, pa.array(next(numbers))))
        for item in appended
    ]
    return numbered, first + sum(batch.num_rows for batch in lacking)


def _numbers(batches: Sequence[pa.Table], first: int) -> list[Numbers]:
    """For each batch the numbers of its records, ascending."""
    if len(batches) < 2:
        return [np.arange(first, first + batch.num_rows) for batch in batches]
    rising = [np.maximum.accumulate(batch["timestamp"].to_numpy()) for batch in batches]
    _, ranks = np.unique(np.concatenate(rising), return_inverse=True)
    return np.split(first + ranks, np.cumsum([len(times) for times in rising])[:-1])

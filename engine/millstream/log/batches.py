"""How a log cuts and joins batches, independent of their representation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
import pyarrow as pa

from millstream.log.log import Batch
from millstream.model.batch import NO_RECORDS, RAW_SCHEMA


@dataclass(frozen=True, slots=True)
class Batches(Generic[Batch]):
    """The operations of a log on a batch.

    `cut(batch, start, count)` takes a run of records, `join` puts batches one after another (no
    batches: the empty batch), `topic_partition(batch, first)` numbers the records from the offset
    `first`, `size` is its approximate size in bytes.
    """

    cut: Callable[[Batch, int, int], Batch]
    join: Callable[[Sequence[Batch]], Batch]
    topic_partition: Callable[[Batch, int], Batch]
    size: Callable[[Batch], int]


def _join_tables(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables) if tables else NO_RECORDS


def _place_table(table: pa.Table, first: int) -> pa.Table:
    offsets = pa.array(np.arange(first, first + table.num_rows, dtype=np.int64))
    return table.set_column(0, RAW_SCHEMA.field(0), offsets)


def _join_lists(lists: Sequence[list[Any]]) -> list[Any]:
    return [record for records in lists for record in records]


TABLES: Batches[pa.Table] = Batches(
    cut=lambda table, start, count: table.slice(start, count),
    join=_join_tables,
    topic_partition=_place_table,
    size=lambda table: int(table.nbytes),
)
"""Arrow tables of `RAW_SCHEMA`."""

LISTS: Batches[list[Any]] = Batches(
    cut=lambda records, start, count: records[start : start + count],
    join=_join_lists,
    topic_partition=lambda records, _first: records,
    size=lambda records: 100 * len(records),
)
"""Lists of anything; the records do not know their offsets."""

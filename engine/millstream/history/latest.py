"""The contents of a table, from all of its changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.batch import DIFF

RAW_KEY = "$key"
"""BINARY: the key of the record that a row comes from."""


def last_rows(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The last row of each key, unless it is a deletion, from rows in offset order. Holds about
    twice as many rows in memory as there are keys."""
    kept: list[pa.Table] = []
    waiting: list[pa.Table] = []
    for rows in pieces:
        waiting.append(rows)
        if _count(waiting) > _count(kept):
            kept, waiting = [_last([*kept, *waiting])], []
    if kept or waiting:
        rows = _last([*kept, *waiting])
        yield rows.filter(pc.not_equal(rows[DIFF], 0))


def _count(pieces: Iterable[pa.Table]) -> int:
    return sum(piece.num_rows for piece in pieces)


def _last(pieces: list[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(pieces)
    numbered = pa.table({RAW_KEY: rows[RAW_KEY], "n": np.arange(rows.num_rows)})
    found = numbered.group_by(RAW_KEY, use_threads=False).aggregate([("n", "max")])
    return rows.take(pa.array(np.sort(found["n_max"].to_numpy())))

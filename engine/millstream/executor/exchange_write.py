"""Writes rows that move to another task: turns the relation `out` into records of a repartition
topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.catalog.formats import NO_COLUMNS
from millstream.executor.order import Ints
from millstream.executor.sender_labels import label
from millstream.executor.sink import by_partition, destinations, numbered_on
from millstream.formats.codec import EncodeSpec, encode
from millstream.formats.ipc import pack, pieces
from millstream.log.log import Appended
from millstream.model.batch import DIFF, MOMENT, PART, ROWTIME, SENDER, SEQ, raw_batch
from millstream.model.physical import physical_names
from millstream.model.schema import Schema, SourceKind
from millstream.plan.nodes import Repartition


@dataclass(frozen=True, slots=True)
class Target:
    """A repartition topic: the number of tasks that read it. `apart`: each task writes to its own
    channel (see `RepartitionInput`). `labelled`: rows say which task has sent them."""

    topic: str
    tasks: int
    apart: bool = False
    labelled: bool = False


@dataclass(frozen=True, slots=True)
class Leaving:
    """The rows of one run that move: the partition and number of each (both rows of a pair share
    one number)."""

    rows: pa.Table
    destination: np.ndarray[Any, Any]
    seq: Ints


def leaving(
    con: duckdb.DuckDBPyConnection,
    out: pa.Table,
    node: Repartition,
    target: Target,
) -> Leaving:
    """The rows of a run that move, and their destinations."""
    destination = _task_of(con, out, node, target)
    if target.apart:
        destination = destination + (out[PART].to_numpy() + 1) * target.tasks
    if target.labelled:
        out = out.append_column(SENDER, out[PART].cast(pa.int16()))
    dropped = [PART, SEQ]
    if node.kind is SourceKind.STREAM and out[DIFF].to_numpy().min() == 1:
        dropped.append(DIFF)
    return Leaving(out.drop_columns(dropped), destination, out[SEQ].to_numpy())


def sent(runs: Sequence[Leaving], node: Repartition, topic: str) -> tuple[Appended[pa.Table], ...]:
    """Arrow IPC records for each partition that rows of some runs move to. A record's time is that
    of its newest row, or its first m where rows carry m."""
    alike = groupby(runs, key=lambda run: run.rows.schema)
    return tuple(
        record for _, some in alike for record in _records(_joined(list(some)), node, topic)
    )


def _joined(runs: Sequence[Leaving]) -> Leaving:
    if len(runs) == 1:
        return runs[0]
    return Leaving(
        pa.concat_tables([run.rows for run in runs]),
        np.concatenate([run.destination for run in runs]),
        np.concatenate(numbered_on([run.seq for run in runs])),
    )


def _records(run: Leaving, node: Repartition, topic: str) -> Iterator[Appended[pa.Table]]:
    rows, order = run.rows, run.seq
    if node.kind is SourceKind.TABLE:
        rows = rows.append_column(SEQ, pa.array(run.seq))
        order = run.seq * 2 + (rows[DIFF].to_numpy() > 0)
    for partition, own in by_partition(rows, run.destination, order, None):
        changes = own[SEQ].to_numpy() if node.kind is SourceKind.TABLE else None
        for piece in pieces(own, changes):
            blob = pack(piece)
            carried = MOMENT in piece.column_names
            time = piece[MOMENT][0] if carried else pc.max(piece[ROWTIME])
            key = label(np.unique(piece[SENDER]).tolist()) if SENDER in piece.column_names else None
            batch = raw_batch([(key, blob, time.as_py())])
            yield Appended(topic, partition, batch, 1, len(blob))


def _task_of(
    con: duckdb.DuckDBPyConnection, out: pa.Table, node: Repartition, target: Target
) -> np.ndarray[Any, Any]:
    """The task that each row moves to."""
    if node.key_format is None or target.tasks == 1:
        return np.asarray(out[PART].to_numpy() % target.tasks)
    names = physical_names(node.schema.names)[: len(node.schema.key)]
    columns = out.select(list(names))
    key = EncodeSpec(node.key_format, NO_COLUMNS, Schema(node.schema.key), None)
    encoded = encode(con, columns, key, target.topic)
    return destinations(encoded.key, out, target.tasks)


def rising_times(out: pa.Table, before: int) -> Ints:
    """The running maximum of event time at each row of `out`, starting at `before`, for use where
    the causing record is unknown."""
    seq = out[SEQ].to_numpy()
    order = np.argsort(seq, kind="stable")
    numbers, times = seq[order], out[ROWTIME].to_numpy()[order]
    rising = np.maximum.accumulate(np.maximum(times, before))
    result = np.empty_like(rising)
    result[order] = rising[np.searchsorted(numbers, numbers, side="right") - 1]
    return result

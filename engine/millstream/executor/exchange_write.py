"""Writes rows that move to another task: turns the relation `out` into records of a repartition
topic."""

from __future__ import annotations

from collections.abc import Sequence
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
from millstream.formats.ipc import pack, pieces, unpack
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


def side_by_side(groups: Sequence[Leaving]) -> Leaving:
    """The rows of one run that leave several groups of tasks. Their numbers are those of the
    run."""
    if len(groups) == 1:
        return groups[0]
    rows = [group.rows for group in groups]
    names = next((each.column_names for each in rows if DIFF in each.column_names), None)
    if names is not None:
        rows = [_with_diff(each).select(names) for each in rows]
    return Leaving(
        pa.concat_tables(rows),
        np.concatenate([group.destination for group in groups]),
        np.concatenate([group.seq for group in groups]),
    )


def _with_diff(rows: pa.Table) -> pa.Table:
    if DIFF in rows.column_names:
        return rows
    return rows.append_column(DIFF, pa.array(np.ones(rows.num_rows, np.int8)))


def joined(runs: Sequence[Leaving]) -> list[Leaving]:
    """Runs that follow each other as one, where their rows have the same columns."""
    alike = groupby(runs, key=lambda run: run.rows.schema)
    return [_joined(list(some)) for _, some in alike]


def _joined(runs: Sequence[Leaving]) -> Leaving:
    if len(runs) == 1:
        return runs[0]
    return Leaving(
        pa.concat_tables([run.rows for run in runs]),
        np.concatenate([run.destination for run in runs]),
        np.concatenate(numbered_on([run.seq for run in runs])),
    )


def sent(
    run: Leaving, node: Repartition, topic: str, share: int = 0, shares: int = 1
) -> tuple[Appended[pa.Table], ...]:
    """Arrow IPC records for each partition that rows of a run move to, or for a share of these
    partitions. A record's time is that of its newest row, or its first m where rows carry m."""
    rows, order = run.rows, run.seq
    chosen = None if shares == 1 else np.flatnonzero(run.destination % shares == share)
    if node.kind is SourceKind.TABLE:
        rows = rows.append_column(SEQ, pa.array(run.seq))
        order = run.seq * 2 + (rows[DIFF].to_numpy() > 0)
    return tuple(
        _record(topic, partition, piece)
        for partition, own in by_partition(rows, run.destination, order, chosen)
        for piece in pieces(own, own[SEQ].to_numpy() if node.kind is SourceKind.TABLE else None)
    )


def _record(topic: str, partition: int, piece: pa.Table) -> Appended[pa.Table]:
    blob = pack(piece)
    time = piece[MOMENT][0] if MOMENT in piece.column_names else pc.max(piece[ROWTIME])
    key = label(np.unique(piece[SENDER]).tolist()) if SENDER in piece.column_names else None
    return Appended(topic, partition, raw_batch([(key, blob, time.as_py())]), 1, len(blob))


def rest_of(record: Appended[pa.Table], done: int) -> Appended[pa.Table]:
    """The record without its first rows."""
    rows = unpack(record.batch["value"][0].as_buffer())
    return _record(record.topic, record.partition, rows.slice(done))


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

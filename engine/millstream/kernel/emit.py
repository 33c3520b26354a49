"""From the relation `out` to records for the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.catalog.source import Format
from millstream.formats.codec import EncodeSpec, encode
from millstream.formats.event_time import event_times
from millstream.formats.ipc import pack, pieces
from millstream.formats.partition import partition_of
from millstream.log.log import Appended
from millstream.model.batch import (
    DIFF,
    HEADER_TYPE,
    HEADERS,
    MOMENT,
    PART,
    RAW_SCHEMA,
    ROWTIME,
    SEQ,
    raw_batch,
)
from millstream.model.physical import physical_name, physical_names
from millstream.model.problem import Problem
from millstream.model.schema import Schema, SourceKind
from millstream.plan.nodes import Repartition, Write

Array = Any
Ints = np.ndarray[Any, np.dtype[np.int64]]
_BOOKKEEPING = (PART, SEQ, ROWTIME, DIFF, HEADERS)


def reduced(out: pa.Table, kind: SourceKind) -> pa.Table:
    """Of a pair (-1, +1) only the +1: what is left are upserts and, `$diff` < 1, deletions."""
    if kind is SourceKind.STREAM or out.num_rows == 0:
        return out
    diff = out[DIFF].to_numpy()
    if diff.min() > -1:
        return out
    seq = out[SEQ].to_numpy()
    entering = np.zeros(int(seq.max()) + 1, np.bool_)
    entering[seq[diff == 1]] = True
    return out.filter(pa.array((diff != -1) | ~entering[seq]))


def records(
    con: duckdb.DuckDBPyConnection,
    out: pa.Table,
    node: Write,
    spec: EncodeSpec,
    partitions: int,
) -> tuple[tuple[Appended[pa.Table], ...], tuple[Problem, ...]]:
    """Encoded records for each partition of the sink, in `$seq` order; `out` is reduced."""
    if out.num_rows == 0:
        return (), ()
    columns = out.select([name for name in out.column_names if name not in _BOOKKEEPING])
    encoded = encode(con, columns, spec, node.topic)
    diff = out[DIFF].to_numpy()
    value = encoded.value
    if diff.min() < 1:
        value = pc.if_else(pa.array(diff == 1), value, pa.scalar(None, value.type))
    times, timely = sink_times(out, node)
    keeping = encoded.keep.to_numpy(zero_copy_only=False) & timely
    destination = destinations(encoded.bare, out, partitions)
    plain = pa.nulls(out.num_rows, HEADER_TYPE)
    raw = pa.Table.from_arrays(
        [
            pa.array(np.zeros(out.num_rows, np.int64)),
            pa.array(times),
            encoded.key,
            value,
            out[HEADERS] if HEADERS in out.column_names else plain,
        ],
        schema=RAW_SCHEMA,
    )
    rows = np.flatnonzero(keeping) if not keeping.all() else None
    appended = tuple(
        Appended(node.topic, partition, piece, piece.num_rows, piece.nbytes)
        for partition, piece in by_partition(raw, destination, out[SEQ].to_numpy(), rows)
    )
    return appended, tuple(encoded.problems)


def sink_times(out: pa.Table, node: Write) -> tuple[Ints, Array]:
    """The event times of the records, and which of them are usable."""
    if node.timestamp is None:
        return out[ROWTIME].to_numpy(), True
    column = node.schema.find(node.timestamp.name)
    assert column is not None
    values = out[physical_name(column.name, node.schema.names)].combine_chunks()
    times = event_times(values, column.type, node.timestamp)
    return times, times >= 0


def destinations(key: Array, out: pa.Table, partitions: int) -> np.ndarray[Any, Any]:
    """The partition of each row: by its key, without one as the task's own."""
    if partitions == 1:
        return np.zeros(out.num_rows, np.int32)
    found = partition_of(key, partitions)
    own = out[PART].to_numpy() % partitions
    return np.where(found < 0, own, found)


def by_partition(
    table: pa.Table, destination: np.ndarray[Any, Any], seq: Ints, rows: Ints | None
) -> Iterator[tuple[int, pa.Table]]:
    """The (chosen) rows cut by destination, each piece in `$seq` order."""
    order = np.arange(table.num_rows) if rows is None else rows
    in_order = bool(np.all(seq[order][1:] >= seq[order][:-1]))
    if not in_order:
        order = order[np.argsort(seq[order], kind="stable")]
    present = np.unique(destination[order])
    if len(present) == 1 and in_order and rows is None:
        yield int(present[0]), table
        return
    if len(present) > 1:
        order = order[np.argsort(destination[order].astype(np.int16), kind="stable")]
    # Rows of a source without keys go where they came from, and lie there already.
    sorted_ = len(order) == table.num_rows and bool(np.all(order[1:] > order[:-1]))
    sorted_rows = table if sorted_ else table.take(pa.array(order))
    cuts = [*np.searchsorted(destination[order], present).tolist(), len(order)]
    for partition, begin, end in zip(present.tolist(), cuts, cuts[1:], strict=False):
        yield partition, sorted_rows.slice(begin, end - begin)


def key_spec(node: Repartition, key_format: Format) -> EncodeSpec:
    """How the key alone is serialised to find a partition."""
    return EncodeSpec(key_format, Format("NONE"), Schema(node.schema.key), None)


@dataclass(frozen=True, slots=True)
class Target:
    """A repartition topic: how many tasks read it. `apart`: what each task sends goes into its own
    lane (see `RepartitionInput`)."""

    topic: str
    tasks: int
    apart: bool = False


def moved(
    con: duckdb.DuckDBPyConnection,
    out: pa.Table,
    node: Repartition,
    target: Target,
    moments: Ints | None = None,
) -> tuple[Appended[pa.Table], ...]:
    """Records for each partition that rows move to, holding them as Arrow IPC. With `moments`
    the rows carry them, and the record's time is the first of them instead of the newest."""
    if out.num_rows == 0:
        return ()
    destination = _task_of(con, out, node, target)
    if target.apart:
        destination = destination + (out[PART].to_numpy() + 1) * target.tasks
    seq = out[SEQ].to_numpy()
    leaving = [PART]
    if node.kind is SourceKind.STREAM:
        leaving.append(SEQ)
        if out[DIFF].to_numpy().min() == 1:
            leaving.append(DIFF)
    else:
        seq = seq * 2 + (out[DIFF].to_numpy() > 0)
    rows = out.drop_columns(leaving)
    if moments is not None:
        rows = rows.append_column(MOMENT, pa.array(moments))
    result = []
    for partition, own in by_partition(rows, destination, seq, None):
        changes = own[SEQ].to_numpy() if node.kind is SourceKind.TABLE else None
        for piece in pieces(own, changes):
            blob = pack(piece)
            time = pc.max(piece[ROWTIME]) if moments is None else piece[MOMENT][0]
            batch = raw_batch([(None, blob, time.as_py())])
            result.append(Appended(target.topic, partition, batch, 1, len(blob)))
    return tuple(result)


def _task_of(
    con: duckdb.DuckDBPyConnection, out: pa.Table, node: Repartition, target: Target
) -> np.ndarray[Any, Any]:
    """The task that each row moves to."""
    if node.key_format is None or target.tasks == 1:
        return np.asarray(out[PART].to_numpy() % target.tasks)
    names = physical_names(node.schema.names)[: len(node.schema.key)]
    columns = out.select(list(names))
    encoded = encode(con, columns, key_spec(node, node.key_format), target.topic)
    return destinations(encoded.key, out, target.tasks)


def moments(out: pa.Table, known: Ints | None, before: int) -> Ints:
    """How far event time had come with each row of `out`. `known`: by `$seq`, where that is still
    the input's; otherwise it is taken to rise with the rows themselves, from `before` on."""
    seq = out[SEQ].to_numpy()
    if known is not None:
        return np.asarray(known[seq], np.int64)
    order = np.argsort(seq, kind="stable")
    numbers, times = seq[order], out[ROWTIME].to_numpy()[order]
    rising = np.maximum.accumulate(np.maximum(times, before))
    result = np.empty_like(rising)
    result[order] = rising[np.searchsorted(numbers, numbers, side="right") - 1]
    return result


def delivered(out: pa.Table) -> tuple[Appended[pa.Table], ...]:
    """Typed rows for a client, in `$seq` order; `out` is reduced."""
    if out.num_rows == 0:
        return ()
    ((_, rows),) = by_partition(out, np.zeros(out.num_rows, np.int32), out[SEQ].to_numpy(), None)
    return (Appended("", 0, rows, rows.num_rows, rows.nbytes),)


def last_of_keys(
    con: duckdb.DuckDBPyConnection, outs: Sequence[pa.Table], keys: Sequence[str]
) -> pa.Table:
    """The last row of each key of several runs, in the order in which they came."""
    shift, numbered = 0, []
    for out in outs:
        seq = out[SEQ].to_numpy() + shift
        numbered.append(out.set_column(out.column_names.index(SEQ), SEQ, pa.array(seq)))
        shift = int(seq.max(initial=shift)) + 1
    rows = pa.concat_tables(numbered, promote_options="default")
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in (PART, *keys))
    con.register("$pending", rows)
    chosen = con.sql(
        f'SELECT max("{SEQ}") AS "{SEQ}" FROM "$pending" GROUP BY {quoted} ORDER BY 1'
    ).to_arrow_table()
    con.unregister("$pending")
    seqs = rows[SEQ].to_numpy()
    keep = np.zeros(shift, np.bool_)
    keep[chosen[SEQ].to_numpy()] = True
    return rows.filter(pa.array(keep[seqs]))

"""Encodes the relation `out` as records for the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.executor.order import Ints
from millstream.formats.codec import EncodeSpec, encode
from millstream.formats.event_time import event_times, usable
from millstream.formats.partition import partition_by_column, partition_of
from millstream.log.log import Appended
from millstream.model.batch import (
    DIFF,
    HEADER_TYPE,
    HEADERS,
    MOMENT,
    NUMBERED_SCHEMA,
    PART,
    RAW_SCHEMA,
    ROWTIME,
    SEQ,
)
from millstream.model.physical import physical_name
from millstream.model.problem import Problem
from millstream.model.schema import SourceKind
from millstream.operators.sql import identifier
from millstream.plan.nodes import Write

Array = Any
_BOOKKEEPING = (PART, SEQ, ROWTIME, DIFF, HEADERS, MOMENT)


def reduced(out: pa.Table, kind: SourceKind) -> pa.Table:
    """Keep only the +1 of a pair (-1, +1): upserts remain and, with `$diff` < 1, deletions."""
    if kind is SourceKind.STREAM or out.num_rows == 0:
        return out
    diff = out[DIFF].to_numpy()
    if diff.min() > -1:
        return out
    seq = out[SEQ].to_numpy()
    entering = np.zeros(int(seq.max()) + 1, np.bool_)
    entering[seq[diff == 1]] = True
    return out.filter(pa.array((diff != -1) | ~entering[seq]))


@dataclass(frozen=True, slots=True)
class Encoded:
    """Records of a run for the sink: the partition and number of each, and which of them to write
    (None: all)."""

    records: pa.Table
    destination: np.ndarray[Any, Any]
    seq: Ints
    rows: Ints | None = None

    def appended(self, topic: str) -> tuple[Appended[pa.Table], ...]:
        """The records for each partition, in `$seq` order."""
        return tuple(
            Appended(topic, partition, piece, piece.num_rows, piece.nbytes)
            for partition, piece in by_partition(
                self.records, self.destination, self.seq, self.rows
            )
        )


def encoded(
    con: duckdb.DuckDBPyConnection,
    out: pa.Table,
    node: Write,
    spec: EncodeSpec,
    partitions: int,
) -> tuple[Encoded, tuple[Problem, ...]]:
    """The rows of `out`, which is reduced, as records. Where it has `$m`, that is the records'
    arrival number."""
    columns = out.select([name for name in out.column_names if name not in _BOOKKEEPING])
    encoded = encode(con, columns, spec, node.topic)
    diff = out[DIFF].to_numpy()
    value = encoded.value
    if diff.min() < 1:
        value = pc.if_else(pa.array(diff == 1), value, pa.scalar(None, value.type))
    times, timely = sink_times(out, node)
    keeping = encoded.keep.to_numpy(zero_copy_only=False) & timely
    destination = _sink_destinations(encoded.bare, out, node, partitions)
    plain = pa.nulls(out.num_rows, HEADER_TYPE)
    arrays = [
        pa.array(np.zeros(out.num_rows, np.int64)),
        pa.array(times),
        encoded.key,
        value,
        out[HEADERS] if HEADERS in out.column_names else plain,
    ]
    if MOMENT in out.column_names:
        raw = pa.Table.from_arrays([*arrays, out[MOMENT]], schema=NUMBERED_SCHEMA)
    else:
        raw = pa.Table.from_arrays(arrays, schema=RAW_SCHEMA)
    rows = np.flatnonzero(keeping) if not keeping.all() else None
    return Encoded(raw, destination, out[SEQ].to_numpy(), rows), tuple(encoded.problems)


def apart(groups: Sequence[Encoded]) -> bool:
    """Whether no two of them have records for the same partition."""
    found = np.concatenate([np.unique(each.destination) for each in groups])
    return len(found) == len(np.unique(found))


def merged(groups: Sequence[Encoded]) -> Encoded:
    """The records of several groups of tasks as those of one."""
    shift, chosen = 0, []
    for each in groups:
        rows = np.arange(each.records.num_rows) if each.rows is None else each.rows
        chosen.append(rows + shift)
        shift += each.records.num_rows
    return Encoded(
        pa.concat_tables([each.records for each in groups]),
        np.concatenate([each.destination for each in groups]),
        np.concatenate([each.seq for each in groups]),
        np.concatenate(chosen),
    )


def sink_times(out: pa.Table, node: Write) -> tuple[Ints, Array]:
    """The event times of the records, and which of them are usable."""
    if node.timestamp is None:
        return out[ROWTIME].to_numpy(), True
    column = node.schema.find(node.timestamp.name)
    assert column is not None
    values = out[physical_name(column.name, node.schema.names)].combine_chunks()
    times = event_times(values, column.type, node.timestamp)
    return times, usable(times)


def _sink_destinations(
    key: Array, out: pa.Table, node: Write, partitions: int
) -> np.ndarray[Any, Any]:
    """The partition of each row that is written: see `destinations`, and PARTITION_COLUMN."""
    if node.partition_column is None or partitions == 1:
        return destinations(key, out, partitions)
    column = out[physical_name(node.partition_column, node.schema.names)].combine_chunks()
    return _or_own(partition_by_column(column, partitions), out, partitions)


def destinations(key: Array, out: pa.Table, partitions: int) -> np.ndarray[Any, Any]:
    """The partition of each row: by its key, or the task's own partition without a key."""
    if partitions == 1:
        return np.zeros(out.num_rows, np.int32)
    return _or_own(partition_of(key, partitions), out, partitions)


def _or_own(found: np.ndarray[Any, Any], out: pa.Table, partitions: int) -> np.ndarray[Any, Any]:
    """The partition of each row, that of its task where there is no other."""
    return np.where(found < 0, out[PART].to_numpy() % partitions, found)


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
    # Rows of a source without keys stay in their partition and are already ordered by it.
    sorted_ = len(order) == table.num_rows and bool(np.all(order[1:] > order[:-1]))
    sorted_rows = table if sorted_ else table.take(pa.array(order))
    cuts = [*np.searchsorted(destination[order], present).tolist(), len(order)]
    for partition, begin, end in zip(present.tolist(), cuts, cuts[1:], strict=False):
        yield partition, sorted_rows.slice(begin, end - begin)


def delivered(out: pa.Table) -> tuple[Appended[pa.Table], ...]:
    """Typed rows for a client, in `$seq` order; `out` is reduced."""
    if out.num_rows == 0:
        return ()
    ((_, rows),) = by_partition(out, np.zeros(out.num_rows, np.int32), out[SEQ].to_numpy(), None)
    return (Appended("", 0, rows, rows.num_rows, rows.nbytes),)


def numbered_on(runs: Sequence[Ints]) -> list[Ints]:
    """The numbers of the rows of several runs; those of each run follow those of the run before."""
    shift, numbered = 0, []
    for numbers in runs:
        numbered.append(numbers + shift)
        shift = int(numbered[-1].max(initial=shift)) + 1
    return numbered


def net_changes(
    con: duckdb.DuckDBPyConnection, outs: Sequence[pa.Table], keys: Sequence[str], *, known: bool
) -> pa.Table:
    """The last change of each key of several runs, in input order. Where `known` says which keys
    existed before, a key that exists neither before nor after has no change: a Kafka Streams store
    with a cache forwards nothing where the old and the new value are NULL."""
    numbers = numbered_on([out[SEQ].to_numpy() for out in outs])
    numbered = [
        out.set_column(out.column_names.index(SEQ), SEQ, pa.array(seq))
        for out, seq in zip(outs, numbers, strict=True)
    ]
    rows = pa.concat_tables(numbered, promote_options="default")
    diff = rows[DIFF].to_numpy()
    # In a pair, which shares one number, the inserted row comes second.
    order = np.argsort(rows[SEQ].to_numpy() * 2 + (diff == 1), kind="stable")
    topic_partition = np.empty(len(order), np.int64)
    topic_partition[order] = np.arange(len(order))
    quoted = ", ".join(map(identifier, (PART, *keys)))
    con.register("$pending", rows.append_column("$place", pa.array(topic_partition)))
    found = con.sql(
        f'SELECT min("$place"), max("$place") FROM "$pending" GROUP BY {quoted} ORDER BY 2'
    ).to_arrow_table()
    con.unregister("$pending")
    first, last = (order[column.to_numpy()] for column in found.columns)
    if known:
        last = last[(diff[last] == 1) | (diff[first] == -1)]
    return rows.take(pa.array(last))

"""Reads rows that another task has sent through a repartition topic. Each record holds a batch of
rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from millstream.formats.ipc import unpack
from millstream.log.log import Fetched
from millstream.model.batch import (
    DIFF,
    HEADER_TYPE,
    HEADERS,
    MOMENT,
    PART,
    ROWTIME,
    SENDER,
    SEQ,
)
from millstream.model.event_time import NEVER
from millstream.model.physical import arrow_type, physical_names
from millstream.topology.topology import RepartitionInput, SubTopology

OFFSET = "$offset"
SKIP = "$index"
CHANNEL = "$channel"
AT = "$at"


@dataclass(frozen=True, slots=True)
class ChannelWatermark:
    """The position of a task in one of its inputs or channels: m (see `order`), and, in a record
    that holds a batch of rows and is consumed in part, how many of its rows are processed."""

    m: int = NEVER
    offset: int = -1
    done: int = 0


class Slot(NamedTuple):
    """The key of a watermark: a task and one of the things it reads. Inputs are numbered first,
    then their second channels, and so on."""

    task: int
    number: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """The records of one partition, and from which of its rows on they are new."""

    fetched: Fetched[pa.Table]
    slot: Slot
    mark: ChannelWatermark


def slot_of(sub: SubTopology, index: int, partition: int) -> Slot:
    """The key under which the watermark of a partition of an input is stored."""
    channel, task = divmod(partition, sub.partitions)
    return Slot(task, index + channel * len(sub.inputs))


def constant(value: int, count: int) -> pa.Array:
    """`count` times the same number."""
    return pa.array(np.full(count, value, np.int32))


class Unpacked:
    """The rows of fetched records. Records that are held back are read again but decoded only
    once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], pa.Table] = {}
        self._shared: set[tuple[str, int]] = set()
        """Partitions with the rows of several senders."""
        self._presented: set[tuple[str, int, int]] = set()
        """The records on these that the last run was given."""

    def rows(
        self, source: RepartitionInput, arrived: Sequence[Arrived], *, moments: bool
    ) -> tuple[pa.Table, list[int]]:
        """All rows of the batches in the records, and before which row those of each partition end;
        `SKIP` is negative in the second row of a pair. `moments`: with `$m`, which they carry."""
        schema = _schema(source, moments=moments)
        pieces, counts = [], []
        for item in arrived:
            batch, count = item.fetched.records(), 0
            for offset, blob in zip(batch["offset"].to_pylist(), batch["value"], strict=True):
                rows = self._unpacked(item, offset, blob, schema)
                piece = rows.slice(item.mark.done) if offset == item.mark.offset else rows
                pieces.append(piece)
                count += piece.num_rows
            counts.append(count)
        table = pa.concat_tables(pieces) if pieces else schema.empty_table()
        return table, list(accumulate(counts))

    def rows_of_senders(
        self,
        source: RepartitionInput,
        tasks: int,
        reads: Sequence[Fetched[pa.Table]],
        *,
        moments: bool,
    ) -> tuple[pa.Table, list[int]]:
        """All rows of the batches in the records, and how many there are of each partition.
        `CHANNEL`: the number of the sender's channel on the partition. `AT`: that of the row among
        those of its sender in the record."""
        schema = _schema(source, moments=moments)
        named = schema.append(pa.field(CHANNEL, pa.int32())).append(pa.field(AT, pa.int64()))
        pieces: list[pa.Table] = []
        counts: list[int] = []
        for read in reads:
            count = 0
            offsets = read.batch["offset"].to_pylist()
            for offset, blob in zip(offsets, read.batch["value"], strict=True):
                record = (read.topic, read.partition, offset)
                if record not in self._known:
                    rows = unpack(blob.as_buffer())
                    labelled = _labelled(rows, schema, read.partition % tasks, offset)
                    self._known[record] = _with_channels(labelled, rows)
                self._presented.add(record)
                pieces.append(self._known[record])
                count += pieces[-1].num_rows
            counts.append(count)
        self._shared.update((read.topic, read.partition) for read in reads)
        return (pa.concat_tables(pieces) if pieces else named.empty_table()), counts

    def _unpacked(
        self, item: Arrived, offset: int, blob: pa.LargeBinaryScalar, schema: pa.Schema
    ) -> pa.Table:
        record = (item.fetched.topic, item.fetched.partition, offset)
        if record not in self._known:
            rows = unpack(blob.as_buffer())
            self._known[record] = _labelled(rows, schema, item.slot.task, offset)
        return self._known[record]

    def passed(self, consumed: Mapping[tuple[str, int], int]) -> None:
        """Note that the partitions are consumed up to these offsets."""
        kept = self._known.items()
        self._known = {
            (topic, partition, offset): rows
            for (topic, partition, offset), rows in kept
            if offset >= consumed.get((topic, partition), offset)
            and (
                (topic, partition) not in self._shared
                or (topic, partition, offset) in self._presented
            )
        }
        self._presented.clear()

    def forget(self) -> None:
        """Drop the cache; none of these records is read again."""
        self._known.clear()
        self._presented.clear()


def _schema(source: RepartitionInput, *, moments: bool) -> pa.Schema:
    fields = [
        pa.field(name, arrow_type(column.type))
        for name, column in zip(
            physical_names(source.schema.names), source.schema.columns, strict=True
        )
    ]
    extra = [
        pa.field(PART, pa.int32()),
        pa.field(OFFSET, pa.int64()),
        pa.field(SKIP, pa.int64()),
        pa.field(ROWTIME, pa.int64()),
        pa.field(DIFF, pa.int8()),
        pa.field(HEADERS, HEADER_TYPE),
        *((pa.field(MOMENT, pa.int64()),) if moments else ()),
    ]
    return pa.schema([*fields, *extra])


def _labelled(rows: pa.Table, schema: pa.Schema, task: int, offset: int) -> pa.Table:
    """Rows of one record with the bookkeeping columns of `schema`."""
    count = rows.num_rows
    index = np.arange(count)
    if SEQ in rows.column_names:
        seq = rows[SEQ].to_numpy()
        index = np.where(np.concatenate([[False], seq[1:] == seq[:-1]]), ~index, index)
    own = {
        PART: constant(task, count),
        OFFSET: pa.array(np.full(count, offset, np.int64)),
        SKIP: pa.array(index),
    }
    if DIFF not in rows.column_names:
        own[DIFF] = pa.array(np.ones(count, np.int8))
    if HEADERS not in rows.column_names:
        own[HEADERS] = pa.nulls(count, HEADER_TYPE)
    columns = [own.get(f.name) if f.name in own else rows[f.name] for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _with_channels(rows: pa.Table, sent: pa.Table) -> pa.Table:
    """Rows of one record, with the channel of each and its number in it."""
    count = rows.num_rows
    channel, at = np.zeros(count, np.int32), np.arange(count)
    if SENDER in sent.column_names:
        channel = sent[SENDER].to_numpy().astype(np.int32) + 1
        order = np.argsort(channel, kind="stable")
        first = np.searchsorted(channel[order], channel[order])
        at = np.empty(count, np.int64)
        at[order] = np.arange(count) - first
    return rows.append_column(CHANNEL, pa.array(channel)).append_column(AT, pa.array(at))

"""Decodes records of the log into the relations `in_<i>` of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.executor.exchange_read import (
    OFFSET,
    SKIP,
    Arrived,
    ChannelWatermark,
    Slot,
    Unpacked,
    slot_of,
)
from millstream.executor.order import Ints, Ordered, Segment, order_rows
from millstream.executor.sender_order import SenderRows, in_sender_order
from millstream.executor.source_reader import Rows, SourceReader
from millstream.formats.codec import DecodeSpec
from millstream.log.log import Fetched
from millstream.model.batch import HEADERS, MOMENT, PART, ROWTIME, SEQ
from millstream.model.event_time import END, NEVER
from millstream.model.physical import physical_names
from millstream.model.problem import Problem
from millstream.model.schema import SourceKind
from millstream.model.schema_text import Schemas
from millstream.plan.nodes import Deliver
from millstream.topology.topology import (
    RepartitionInput,
    SourceInput,
    SubTopology,
    channels_of,
    senders_of,
)


@dataclass(frozen=True, slots=True)
class Decoder:
    """The input of one run. `tables` has one relation per input, its rows numbered; `offsets` the
    record offset of each row; `marks` the new watermarks; `moments` the m of `order`, by `$seq`;
    `watermark` as of `order`."""

    tables: tuple[pa.Table, ...]
    offsets: tuple[Any, ...]
    consumed: Mapping[tuple[str, int], int]
    marks: Mapping[Slot, ChannelWatermark]
    problems: tuple[Problem, ...]
    headers: bool
    moments: Ints
    watermark: int
    ahead: Mapping[tuple[str, int], Mapping[int, int]] = field(default_factory=dict)
    """As of `RunResult`."""
    obsolete: tuple[Slot, ...] = ()
    """Watermarks that say nothing any more."""

    @property
    def rows(self) -> int:
        """The number of rows of all inputs together."""
        return sum(table.num_rows for table in self.tables)

    def with_columns(self, carried: Sequence[str]) -> tuple[pa.Table, ...]:
        """The relations, with those of their trailing columns that a program uses."""
        tables = self.tables
        if HEADERS not in carried:
            tables = tuple(table.drop_columns([HEADERS]) for table in tables)
        if MOMENT in carried:
            tables = tuple(
                table.append_column(MOMENT, pa.array(self.moments[table[SEQ].to_numpy()]))
                for table in tables
            )
        return tables

    @property
    def first(self) -> int:
        """The m (see `order`) of the first row."""
        return int(self.moments[0]) if len(self.moments) else END

    @property
    def last(self) -> int:
        """The m of the last row; NEVER without rows."""
        return int(self.moments[-1]) if len(self.moments) else NEVER


def decode_spec(source_input: SourceInput, schemas: Schemas | None = None) -> DecodeSpec:
    """Decodes the records of a source into the columns of its Read node."""
    read = source_input.read
    columns = zip(physical_names(read.schema.names), read.columns, strict=True)
    return DecodeSpec(
        key_format=read.source.key_format,
        value_format=read.source.value_format,
        schema=read.source.schema,
        columns=tuple(columns),
        window=read.source.window,
        timestamp=read.source.timestamp,
        is_table=read.kind is SourceKind.TABLE,
        schemas=schemas,
    )


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What was fetched for some tasks, decoded and not yet in order."""

    typed: Sequence[Rows]
    senders: Mapping[int, SenderRows]
    segments: Sequence[Segment]
    origin: Sequence[_Origin]


def take_in(
    con: duckdb.DuckDBPyConnection,
    sub: SubTopology,
    readers: Sequence[SourceReader | None],
    inputs: Sequence[Fetched[pa.Table]],
    marks: Mapping[Slot, ChannelWatermark],
    moved: Unpacked,
    *,
    by_arrival: bool,
) -> TakenIn:
    """Decode what was fetched; `in_order` orders it, by arrival or by event time."""
    typed: list[Rows] = []
    segments: list[Segment] = []
    origin: list[_Origin] = []
    ranks = tie_ranks(sub)
    width = max([1, *channels_of(sub).values(), *(n + 2 for n in senders_of(sub).values())])
    senders: dict[int, SenderRows] = {}
    for index, (source, reader) in enumerate(zip(sub.inputs, readers, strict=True)):
        own = [item for item in inputs if item.topic == source.topic]
        if isinstance(source, RepartitionInput) and source.senders:
            rank = ranks[index] * width
            rows = in_sender_order(sub, index, own, marks, moved, rank, by_arrival=by_arrival)
            senders[index] = rows
            typed.append(Rows(rows.table, rows.ends, ()))
            segments += rows.segments
            pairs_of = zip((0, *rows.ends), rows.ends, strict=False)
            origin += [_Origin(index, None, begin, end) for begin, end in pairs_of]
            continue
        slots = [slot_of(sub, index, item.partition) for item in own]
        arrived = [
            Arrived(item, slot, marks.get(slot, ChannelWatermark()))
            for item, slot in zip(own, slots, strict=True)
        ]
        read = _read(con, source, reader, arrived, moved, by_arrival=by_arrival)
        typed.append(read)
        carried = _carried(marks, index, len(sub.inputs))
        moments = read.table[MOMENT if by_arrival else ROWTIME].to_numpy()
        pairs = read.table[SKIP].to_numpy() if SKIP in read.table.column_names else None
        for item, begin, end in zip(arrived, (0, *read.ends), read.ends, strict=False):
            segments.append(
                Segment(
                    ranks[index] * width + item.fetched.partition // sub.partitions,
                    item.slot.task,
                    moments[begin:end],
                    item.fetched.end,
                    carried.get(item.slot.task, NEVER),
                    None if pairs is None else pairs[begin:end] < 0,
                    item.fetched.until,
                )
            )
            origin.append(_Origin(index, item, begin, end))
    return TakenIn(typed, senders, segments, origin)


def in_order(sub: SubTopology, taken: Sequence[TakenIn]) -> list[Decoder]:
    """The input of one run, for each group of tasks its part. The order is that of all tasks, so
    that it does not depend on the groups; rows that are held back are left out of `consumed`."""
    segments = [segment for each in taken for segment in each.segments]
    ordered = order_rows(segments, together=_aligned(sub))
    found, begin = [], 0
    for each in taken:
        end = begin + len(each.segments)
        found.append(_finish(each, ordered.of(begin, end)))
        begin = end
    if len(found) > 1 and any(each.headers for each in found):
        found = [replace(each, headers=True) for each in found]
    return found


def _carried(marks: Mapping[Slot, ChannelWatermark], index: int, inputs: int) -> dict[int, int]:
    """How far each task has progressed in an input. Its channels continue from the same m, as if
    their records were on one partition."""
    found: dict[int, int] = {}
    for slot, mark in marks.items():
        if slot.number % inputs == index:
            found[slot.task] = max(mark.m, found.get(slot.task, NEVER))
    return found


@dataclass(frozen=True, slots=True)
class _Origin:
    """The position of a segment's rows in the relation of an input."""

    index: int
    arrived: Arrived | None
    """None where the rows are of several senders."""
    begin: int
    end: int


def tie_ranks(sub: SubTopology) -> tuple[int, ...]:
    """The rank of each input among rows of the same time: tables before streams, so that a stream
    row joins the table as of its own time, this time included."""
    streams = [_kind(item) is SourceKind.STREAM for item in sub.inputs]
    order = sorted(range(len(streams)), key=lambda index: (streams[index], index))
    return tuple(order.index(index) for index in range(len(order)))


def _kind(source: SourceInput | RepartitionInput) -> SourceKind:
    return source.read.kind if isinstance(source, SourceInput) else source.repartition.kind


def _aligned(sub: SubTopology) -> bool:
    """Whether the tasks advance together in event time. Where their records move to other
    partitions, of this query or of one that reads its sink, no task may be far ahead of another."""
    if isinstance(sub.root, Deliver):
        return False
    return len(sub.inputs) > 1 or isinstance(sub.inputs[0], SourceInput)


def _read(
    con: duckdb.DuckDBPyConnection,
    source: SourceInput | RepartitionInput,
    reader: SourceReader | None,
    arrived: Sequence[Arrived],
    moved: Unpacked,
    *,
    by_arrival: bool,
) -> Rows:
    if isinstance(source, RepartitionInput):
        return Rows(*moved.rows(source, arrived, moments=by_arrival), ())
    assert reader is not None
    return reader.read(con, [item.fetched for item in arrived])


def _finish(taken: TakenIn, ordered: Ordered) -> Decoder:
    typed, senders, origin = taken.typed, taken.senders, taken.origin
    tables: list[pa.Table] = []
    offsets: list[Any] = []
    consumed: dict[tuple[str, int], int] = {}
    moved: dict[Slot, ChannelWatermark] = {}
    ahead: dict[tuple[str, int], Mapping[int, int]] = {}
    obsolete: tuple[Slot, ...] = ()
    for index, item in enumerate(typed):
        own = [s for s, segment in enumerate(origin) if segment.index == index]
        pieces, numbers = [], []
        for s in own:
            arrived, end = origin[s].arrived, origin[s].end
            stop = origin[s].begin + ordered.accepted[s]
            pieces.append(item.table.slice(origin[s].begin, ordered.accepted[s]))
            numbers.append(ordered.seq[s])
            if arrived is None:
                continue
            fetched, before = arrived.fetched, arrived.mark
            m = ordered.m[s] if ordered.accepted[s] else before.m
            mark = _mark(item.table, fetched, stop, end, m, before)
            key = (fetched.topic, fetched.partition)
            reached = mark.offset if stop < end else fetched.next_offset
            consumed[key] = min(reached, consumed.get(key, reached))
            if mark != before:
                moved[arrived.slot] = mark
        if index in senders:
            done = senders[index].taken(
                [ordered.accepted[s] for s in own], [ordered.m[s] for s in own]
            )
            consumed |= done.consumed
            moved |= done.marks
            ahead |= done.ahead
            obsolete += done.obsolete
        whole = all(ordered.accepted[s] == origin[s].end - origin[s].begin for s in own)
        table = item.table if whole else pa.concat_tables(pieces)
        seq = numbers[0] if len(numbers) == 1 else np.concatenate(numbers or [np.empty(0, int)])
        offsets.append(table[OFFSET])
        tables.append(_numbered(table, seq))
    headers = any(_has_headers(table) for table in tables)
    problems = tuple(
        problem
        for item in typed
        for problem in item.problems
        if problem.offset < consumed.get((problem.topic, problem.partition), 1 << 62)
    )
    return Decoder(
        tuple(tables),
        tuple(offsets),
        consumed,
        moved,
        problems,
        headers,
        ordered.moments,
        ordered.watermark,
        ahead,
        obsolete,
    )


def _mark(
    table: pa.Table,
    fetched: Fetched[pa.Table],
    stop: int,
    end: int,
    m: int,
    before: ChannelWatermark,
) -> ChannelWatermark:
    """The watermark behind the row before `stop`. It has an offset only where rows are held back,
    including rows of an earlier run whose record was not read this time."""
    if stop == end:
        unread = before.offset >= 0 and fetched.next_offset <= before.offset
        return replace(before, m=m) if unread else ChannelWatermark(m)
    offset = table[OFFSET][stop].as_py()
    if SKIP not in table.column_names:
        return ChannelWatermark(m, offset)
    index = table[SKIP][stop].as_py()
    return ChannelWatermark(m, offset, index if index >= 0 else ~index)


def _numbered(table: pa.Table, seq: Any) -> pa.Table:
    """The columns of a relation, with `$seq` at its position."""
    kept = [name for name in table.column_names if name not in (OFFSET, SKIP, MOMENT)]
    at = kept.index(PART) + 1
    return table.select(kept).add_column(at, SEQ, pa.array(seq))


def _has_headers(table: pa.Table) -> bool:
    column = table[HEADERS]
    if column.null_count == len(column):
        return False
    return bool(pc.sum(pc.list_value_length(column)).as_py())

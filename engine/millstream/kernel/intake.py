"""From records of the log to the relations `in_<i>` of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.codec import DecodeSpec, decode
from millstream.formats.ipc import unpack
from millstream.kernel.order import Ints, Ordered, Segment, order_rows
from millstream.log.log import Fetched
from millstream.model.batch import DIFF, HEADER_TYPE, HEADERS, PART, ROWTIME, SEQ
from millstream.model.moments import END, NEVER
from millstream.model.physical import arrow_type, physical_names
from millstream.model.problem import Problem
from millstream.model.schema import SourceKind
from millstream.plan.nodes import Deliver
from millstream.topology.topology import RepartitionInput, SourceInput, SubTopology

_OFFSET = "$offset"
_SKIP = "$index"


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a task stands in one of its inputs: m (see `order`), and in a record that holds a
    batch of rows and is consumed in part, how many of its rows are done."""

    m: int = NEVER
    offset: int = -1
    done: int = 0


@dataclass(frozen=True, slots=True)
class Intake:
    """What a run works on. `tables` has one relation per input, its rows numbered; `offsets`
    the record offset of each row; `marks` the new marks by (partition, input); `moments` how far
    event time had come, by `$seq`; `frontier` as of `order`."""

    tables: tuple[pa.Table, ...]
    offsets: tuple[Any, ...]
    consumed: Mapping[tuple[str, int], int]
    marks: Mapping[tuple[int, int], Mark]
    problems: tuple[Problem, ...]
    headers: bool
    moments: Ints
    frontier: int

    @property
    def rows(self) -> int:
        """Rows of all inputs together."""
        return sum(table.num_rows for table in self.tables)

    @property
    def first(self) -> int:
        """The event time of the first row."""
        return int(self.moments[0]) if len(self.moments) else END


@dataclass(frozen=True, slots=True)
class _Typed:
    table: pa.Table
    problems: tuple[Problem, ...] = field(default=())


def decode_spec(source_input: SourceInput) -> DecodeSpec:
    """How the records of a source become the columns of its Read node."""
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
    )


def take_in(
    con: duckdb.DuckDBPyConnection,
    sub: SubTopology,
    specs: Sequence[DecodeSpec | None],
    inputs: Sequence[Fetched[pa.Table]],
    marks: Mapping[tuple[int, int], Mark],
) -> Intake:
    """Decode and order what was fetched; rows that must wait are left out of `consumed`."""
    typed: list[_Typed] = []
    segments: list[Segment] = []
    origin: list[tuple[Fetched[pa.Table], int, int]] = []
    ranks = tie_ranks(sub)
    for index, (source, spec) in enumerate(zip(sub.inputs, specs, strict=True)):
        fetched = [item for item in inputs if item.topic == source.topic]
        read = _read(con, source, spec, fetched, marks, index)
        typed.append(read)
        parts = read.table[PART].to_numpy()
        times = read.table[ROWTIME].to_numpy()
        pairs = read.table[_SKIP].to_numpy() if _SKIP in read.table.column_names else None
        begin = 0
        for item in fetched:
            end = begin + int(np.searchsorted(parts[begin:], item.partition, side="right"))
            segments.append(
                Segment(
                    ranks[index],
                    item.partition,
                    times[begin:end],
                    item.end,
                    marks.get((item.partition, index), Mark()).m,
                    None if pairs is None else pairs[begin:end] < 0,
                    item.until,
                )
            )
            origin.append((item, begin, end))
            begin = end
    ordered = order_rows(segments, together=_aligned(sub))
    return _finish(ranks, typed, segments, origin, ordered, marks)


def tie_ranks(sub: SubTopology) -> tuple[int, ...]:
    """For each input its place among rows of the same time: tables before streams, so that a
    stream row meets the table as of its own time, this time included."""
    streams = [_kind(item) is SourceKind.STREAM for item in sub.inputs]
    order = sorted(range(len(streams)), key=lambda index: (streams[index], index))
    return tuple(order.index(index) for index in range(len(order)))


def _kind(source: SourceInput | RepartitionInput) -> SourceKind:
    return source.read.kind if isinstance(source, SourceInput) else source.repartition.kind


def _aligned(sub: SubTopology) -> bool:
    """Whether the tasks keep pace in event time: where their records leave for other partitions,
    of this query or of one that reads its sink, none should be a month ahead of another."""
    if isinstance(sub.root, Deliver):
        return False
    return len(sub.inputs) > 1 or isinstance(sub.inputs[0], SourceInput)


def _read(
    con: duckdb.DuckDBPyConnection,
    source: SourceInput | RepartitionInput,
    spec: DecodeSpec | None,
    fetched: Sequence[Fetched[pa.Table]],
    marks: Mapping[tuple[int, int], Mark],
    index: int,
) -> _Typed:
    if isinstance(source, RepartitionInput):
        return _unpacked(source, fetched, marks, index)
    assert spec is not None
    raw = pa.concat_tables(
        [item.batch.append_column(PART, _constant(item.partition, item.count)) for item in fetched]
    )
    decoded = decode(con, raw, spec, source.topic, PART)
    return _Typed(decoded.table, tuple(decoded.problems))


def _constant(value: int, count: int) -> pa.Array:
    return pa.array(np.full(count, value, np.int32))


def _unpacked(
    source: RepartitionInput,
    fetched: Sequence[Fetched[pa.Table]],
    marks: Mapping[tuple[int, int], Mark],
    index: int,
) -> _Typed:
    """All rows of the batches in the records; `_SKIP` is negative in the second row of a pair."""
    schema = _repartition_schema(source)
    pieces = []
    for item in fetched:
        mark = marks.get((item.partition, index), Mark())
        offsets = item.batch["offset"].to_pylist()
        for offset, blob in zip(offsets, item.batch["value"], strict=True):
            rows = unpack(blob.as_buffer())
            skipped = mark.done if offset == mark.offset else 0
            pieces.append(_labelled(rows, schema, item.partition, offset, skipped))
    return _Typed(pa.concat_tables(pieces) if pieces else schema.empty_table())


def _repartition_schema(source: RepartitionInput) -> pa.Schema:
    fields = [
        pa.field(name, arrow_type(column.type))
        for name, column in zip(
            physical_names(source.schema.names), source.schema.columns, strict=True
        )
    ]
    extra = [
        pa.field(PART, pa.int32()),
        pa.field(_OFFSET, pa.int64()),
        pa.field(_SKIP, pa.int64()),
        pa.field(ROWTIME, pa.int64()),
        pa.field(DIFF, pa.int8()),
        pa.field(HEADERS, HEADER_TYPE),
    ]
    return pa.schema([*fields, *extra])


def _labelled(
    rows: pa.Table, schema: pa.Schema, partition: int, offset: int, skipped: int
) -> pa.Table:
    """Rows of one record with the bookkeeping columns of `schema`; the first ones left out."""
    count = rows.num_rows
    index = np.arange(count)
    if SEQ in rows.column_names:
        seq = rows[SEQ].to_numpy()
        index = np.where(np.concatenate([[False], seq[1:] == seq[:-1]]), ~index, index)
    own = {
        PART: _constant(partition, count),
        _OFFSET: pa.array(np.full(count, offset, np.int64)),
        _SKIP: pa.array(index),
    }
    if DIFF not in rows.column_names:
        own[DIFF] = pa.array(np.ones(count, np.int8))
    if HEADERS not in rows.column_names:
        own[HEADERS] = pa.nulls(count, HEADER_TYPE)
    columns = [own.get(f.name) if f.name in own else rows[f.name] for f in schema]
    return pa.Table.from_arrays(columns, schema=schema).slice(skipped)


def _finish(
    ranks: Sequence[int],
    typed: Sequence[_Typed],
    segments: Sequence[Segment],
    origin: Sequence[tuple[Fetched[pa.Table], int, int]],
    ordered: Ordered,
    marks: Mapping[tuple[int, int], Mark],
) -> Intake:
    tables: list[pa.Table] = []
    offsets: list[Any] = []
    consumed: dict[tuple[str, int], int] = {}
    moved: dict[tuple[int, int], Mark] = {}
    for index, item in enumerate(typed):
        own = [s for s, segment in enumerate(segments) if segment.rank == ranks[index]]
        pieces, numbers = [], []
        for s in own:
            fetched, begin, end = origin[s]
            stop = begin + ordered.accepted[s]
            pieces.append(item.table.slice(begin, stop - begin))
            numbers.append(ordered.seq[s])
            before = marks.get((fetched.partition, index), Mark())
            mark = _mark(item.table, fetched, stop, end, ordered.m[s], before)
            key = (fetched.topic, fetched.partition)
            reached = mark.offset if stop < end else fetched.next_offset
            consumed[key] = min(reached, consumed.get(key, reached))
            if mark != before:
                moved[fetched.partition, index] = mark
        whole = all(ordered.accepted[s] == origin[s][2] - origin[s][1] for s in own)
        table = item.table if whole else pa.concat_tables(pieces)
        seq = numbers[0] if len(numbers) == 1 else np.concatenate(numbers or [np.empty(0, int)])
        offsets.append(table[_OFFSET])
        tables.append(_numbered(table, seq))
    headers = any(_has_headers(table) for table in tables)
    problems = tuple(
        problem
        for item in typed
        for problem in item.problems
        if problem.offset < consumed.get((problem.topic, problem.partition), 1 << 62)
    )
    return Intake(
        tuple(tables),
        tuple(offsets),
        consumed,
        moved,
        problems,
        headers,
        ordered.moments,
        ordered.frontier,
    )


def _mark(
    table: pa.Table, fetched: Fetched[pa.Table], stop: int, end: int, m: int, before: Mark
) -> Mark:
    """The mark behind the row before `stop`; with an offset only where rows are held back, be it
    since an earlier run whose record was not read this time."""
    if stop == end:
        unread = before.offset >= 0 and fetched.next_offset <= before.offset
        return replace(before, m=m) if unread else Mark(m)
    offset = table[_OFFSET][stop].as_py()
    if _SKIP not in table.column_names:
        return Mark(m, offset)
    index = table[_SKIP][stop].as_py()
    return Mark(m, offset, index if index >= 0 else ~index)


def _numbered(table: pa.Table, seq: Any) -> pa.Table:
    """The columns of a relation, `$seq` in its place."""
    kept = [name for name in table.column_names if name not in (_OFFSET, _SKIP)]
    at = kept.index(PART) + 1
    return table.select(kept).add_column(at, SEQ, pa.array(seq))


def _has_headers(table: pa.Table) -> bool:
    column = table[HEADERS]
    if column.null_count == len(column):
        return False
    return bool(pc.sum(pc.list_value_length(column)).as_py())

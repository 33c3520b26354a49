"""The processors of some tasks, and their stores as tables of the session.

An instance is created with the first rows of its task, from what the session holds, and given up
with everything it keeps in memory when a run fails or the task leaves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.executor.made_rows import MadeRows, OpenProcessor
from millstream.executor.stored_rows import StoredTable, column_of, values_of
from millstream.functions.function import OutputColumn, ProcessorKind
from millstream.model.batch import DIFF, HEADERS, PART, ROWTIME
from millstream.model.physical import physical_names
from millstream.model.schema import Role, Schema
from millstream.operators.arrival_sequence import ORIGIN
from millstream.operators.process import DUE, STREAM_TIME
from millstream.operators.program import ProcessorCall
from millstream.plan.nodes import Process, ProcessedStream
from millstream.plan.processed import OFFSET
from millstream.processors import batches
from millstream.processors.async_processor import AsyncTask
from millstream.processors.batches import ForwardedBatch, TaskBatches
from millstream.processors.event_loop import EventLoop, together
from millstream.processors.processor import Record
from millstream.processors.running import (
    NO_RECORD,
    USERS_ERRORS,
    Forwarded,
    Output,
    ProcessorError,
    TaskProcessor,
    Times,
)
from millstream.processors.sending import Header, Sent
from millstream.processors.stores import StoreKind
from millstream.runtime.calls import NO_CALLS, Calls
from millstream.state.store import Session
from millstream.state.tables import quoted

_LOG = logging.getLogger("millstream.processors")


class ProcessingError(Exception):
    """User code has failed, for the cause. `seq`: the number of the input record; `where`: the
    processor and its method."""

    def __init__(self, part: int, seq: int, where: str) -> None:
        super().__init__(where)
        self.part = part
        self.seq = seq
        self.where = where


@dataclass(frozen=True, slots=True)
class Punctuating:
    """Schedules that are due by the clock of the wall are called for these partitions."""

    now: int
    parts: tuple[int, ...]


@dataclass(slots=True)
class Processors:
    """The instances of some tasks, by the program's relation and the partition."""

    session: Session
    subtopology: int = 0
    skipping: bool = False
    """Whether records for which user code fails are skipped, instead of a query that stops."""
    punctuating: Punctuating | None = None
    """What the run calls by the clock of the wall."""
    _open: dict[tuple[str, int], OpenProcessor] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    """What was sent since the caller has taken it."""
    commits: bool = False
    """Whether a commit was asked for since the caller has reset this."""
    calls: Calls = NO_CALLS
    """The calls of functions in Python since the caller has reset this."""
    _loop: EventLoop | None = None
    """The event loop of those that wait, while any are open."""

    def forget(self, part: int | None = None) -> None:
        """Give up the instances of a task, or all, because a run failed or the task leaves."""
        self.sent, self.commits = [], False
        for name, of in [at for at in self._open if part in (None, at[1])]:
            instance = self._open.pop((name, of))
            try:
                if isinstance(instance, AsyncTask):
                    self._waiting.run(instance.close())
                else:
                    instance.close()
            except USERS_ERRORS:
                _LOG.warning("The method close of processor %s failed", name, exc_info=True)
        if self._loop is not None and not self._open:
            self._loop.close()
            self._loop = None

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Note how long calls of functions in Python take."""
        began = time.perf_counter()
        yield
        self.calls = self.calls.plus(Calls(time.perf_counter() - began))

    @property
    def _waiting(self) -> EventLoop:
        if self._loop is None:
            self._loop = EventLoop()
        return self._loop

    def run(self, call: ProcessorCall, rows: pa.Table) -> dict[str, pa.Table]:
        """The relations that a step makes of its source's rows. Raises ProcessingError."""
        made = MadeRows(call)
        given = _Given(call, rows)
        if call.node.processor.kind is ProcessorKind.ASYNC:
            self._run_awaiting(call, rows, given, made)
        else:
            for part, start, end in _tasks(rows):
                with _failures(call, rows, part, start):
                    instance = self._opened(call, part)
                    assert not isinstance(instance, AsyncTask)
                    forwarded = given.through(instance, start, end, skipping=self.skipping)
                made.add(part, forwarded, start)
                self._note(made, part, instance, start)
        if call.node.processor.interval_ms and self.punctuating is not None:
            self._punctuate(call, rows, made, self.punctuating)
        return made.relations(rows)

    def _note(
        self,
        made: MadeRows,
        part: int,
        instance: OpenProcessor,
        start: int,
        *,
        remembered: bool = True,
    ) -> None:
        """What a task has done in the run, besides the rows that it has made."""
        made.changed(part, instance, start, remembered=remembered)
        metrics = instance.context.metrics
        values = {(name, part): value for name, value in metrics.values().items()}
        self.calls = self.calls.plus(Calls(0.0, metrics.take_counts(), values))
        if not isinstance(instance, TaskBatches):
            self.sent += instance.context.sent
            instance.context.sent = []
        self.commits |= instance.context.commits
        instance.context.commits = False

    def _run_awaiting(
        self, call: ProcessorCall, rows: pa.Table, given: _Given, made: MadeRows
    ) -> None:
        """Run those that wait, for all tasks at the same time."""
        opened: list[tuple[int, int, AsyncTask]] = []
        work = []
        for part, start, end in _tasks(rows):
            with _failures(call, rows, part, start):
                instance = self._opened(call, part)
            assert isinstance(instance, AsyncTask)
            opened.append((part, start, instance))
            run = partial(instance.run, *given.records(start, end), skipping=self.skipping)
            work.append((run, _failures(call, rows, part, start)))
        results = self._waiting.run(together([_explained(*each) for each in work]))
        for (part, start, instance), forwarded in zip(opened, results, strict=True):
            made.add(part, [_as_batch(forwarded, call.node.processor.output)], start)
            self._note(made, part, instance, start)

    def _punctuate(
        self, call: ProcessorCall, rows: pa.Table, made: MadeRows, punctuating: Punctuating
    ) -> None:
        """Call what is due by the clock of the wall, behind the records of the run."""
        for part in punctuating.parts:
            with _failures(call, rows, part, None):
                instance = self._opened(call, part)
                match instance:
                    case TaskProcessor():
                        forwarded = instance.punctuate(punctuating.now, skipping=self.skipping)
                    case AsyncTask():
                        forwarded = self._waiting.run(
                            instance.punctuate(punctuating.now, skipping=self.skipping)
                        )
                    case TaskBatches():
                        raise TypeError("processors of batches have no schedules")
            made.add(part, [_as_batch(forwarded, call.node.processor.output)], 0)
            self._note(made, part, instance, 0, remembered=False)

    def _opened(self, call: ProcessorCall, part: int) -> OpenProcessor:
        found = self._open.get((call.target, part))
        if found is None:
            tables = {store.name: store for store in call.stores}

            def rows(name: str, kind: StoreKind[Any]) -> StoredTable:
                if name not in tables:
                    raise ValueError(f"store '{name}' was not there when it was registered")
                return StoredTable(self.session, tables[name], part)

            processor, times = call.node.processor, self._times(call, part)
            supplier, output, sub = processor.supplier, processor.output, self.subtopology
            try:
                match processor.kind:
                    case ProcessorKind.BATCHES:
                        found = TaskBatches(supplier, part, rows, output, times, sub)
                    case ProcessorKind.RECORDS:
                        found = TaskProcessor(supplier, part, rows, Output(output), times, sub)
                    case ProcessorKind.ASYNC:
                        found = AsyncTask(supplier, part, rows, Output(output), times, sub)
                        self._waiting.run(found.open())
            except USERS_ERRORS as error:
                raise ProcessorError(0, "init") from error
            self._open[call.target, part] = found
        return found

    def _times(self, call: ProcessorCall, part: int) -> Times:
        text = (
            f"SELECT {STREAM_TIME}, {DUE} FROM {quoted(call.times)} WHERE {quoted(PART)} = {part}"
        )
        rows = self.session.connection.sql(text).fetchall()
        return Times(rows[0][0], tuple(rows[0][1])) if rows else Times()


def _tasks(rows: pa.Table) -> Iterator[tuple[int, int, int]]:
    """The tasks among rows that are in the order of tasks, and where the rows of each begin and
    end."""
    parts = rows[PART].to_numpy()
    starts = np.flatnonzero(np.diff(parts, prepend=-1))
    for start, end in pairwise((*starts.tolist(), len(parts))):
        yield int(parts[start]), start, end


@contextmanager
def _failures(call: ProcessorCall, rows: pa.Table, part: int, start: int | None) -> Iterator[None]:
    """Say which record a processor has failed for, among those of a task from `start` on; None: for
    none of them."""
    try:
        yield
    except ProcessorError as error:
        seq = NO_RECORD if start is None else rows[ORIGIN][start + error.place].as_py()
        where = f"{call.node.processor.name}.{error.method}"
        raise ProcessingError(part, seq, where) from error.__cause__


class _Given:
    """The rows of a run as processors get them."""

    def __init__(self, call: ProcessorCall, rows: pa.Table) -> None:
        self._output = call.node.processor.output
        (stream, *others) = call.node.streams
        schema = stream.schema
        if call.node.processor.kind is ProcessorKind.BATCHES:
            columns = _named(rows, schema)
            self._table = pa.table({**columns, batches.ROWTIME: rows[ROWTIME]}).combine_chunks()
            wanted = {column.name: columns[column.name] for column in schema.key}
            self._keys = _keys(schema, wanted if call.stores else {}, rows.num_rows)
        elif not others:
            self._keys, self._records = _records(stream, _named(rows, schema), rows)
        else:
            self._keys, self._records = _records_of_several(call.node, rows)

    def through(
        self, instance: TaskProcessor | TaskBatches, start: int, end: int, *, skipping: bool
    ) -> Sequence[ForwardedBatch]:
        """What a processor forwards for the next rows of its task."""
        keys = self._keys[start:end]
        match instance:
            case TaskProcessor():
                records = islice(self._records, end - start)
                made = instance.run(records, keys, skipping=skipping)
                return [_as_batch(made, self._output)]
            case TaskBatches():
                (batch,) = self._table.slice(start, end - start).to_batches()
                return instance.run(batch, keys, skipping=skipping)

    def records(self, start: int, end: int) -> tuple[list[Record], Sequence[Any]]:
        """The next records of a task, and their keys."""
        return list(islice(self._records, end - start)), self._keys[start:end]


async def _explained(
    run: Callable[[], Awaitable[Forwarded]], failures: AbstractContextManager[None]
) -> Forwarded:
    with failures:
        return await run()


def _as_batch(made: Forwarded, output: Sequence[OutputColumn]) -> ForwardedBatch:
    width = len(output)
    columns = [column_of(made.values[n::width], c.type) for n, c in enumerate(output)]
    times = pa.array(made.times_ms, pa.int64())
    return ForwardedBatch(tuple(columns), times, np.array(made.causes, np.int64))


def _named(rows: pa.Table, schema: Schema) -> dict[str, pa.ChunkedArray]:
    """The columns of a stream that alone is read."""
    physical = physical_names(schema.names)
    return {name: rows[column] for name, column in zip(schema.names, physical, strict=True)}


def _keys(schema: Schema, columns: Mapping[str, pa.ChunkedArray], count: int) -> list[Any]:
    """The key of each row, None if the columns have none."""
    keys = [values_of(columns[column.name]) for column in schema.key if column.name in columns]
    match keys:
        case []:
            return [None] * count
        case [values]:
            return values
    return list(zip(*keys, strict=True))


def _records(
    stream: ProcessedStream, columns: Mapping[str, pa.ChunkedArray], rows: pa.Table
) -> tuple[list[Any], Iterator[Record]]:
    """The keys of a stream's rows, and their records one after another: many at a time are work for
    the garbage collector."""
    schema = stream.schema
    names = tuple(c.name for c in schema.columns if c.role is not Role.KEY and c.name != OFFSET)
    keys = _keys(schema, columns, rows.num_rows)
    others = _rows([values_of(columns[name]) for name in names], rows.num_rows)
    # The way through NumPy is several times shorter than to_pylist, for numbers without NULLs.
    numbers = (rows[ROWTIME], rows[PART], columns[OFFSET])
    places = [column.to_numpy().tolist() for column in numbers]
    # Without `strict`, which takes as long as the dict.
    values = (dict(zip(names, row)) for row in others)  # noqa: B905
    times, parts, offsets = places
    same = repeat(stream.name), repeat(stream.topic)
    given = (keys, values, times, parts, *same, offsets, _headers(rows))
    if not stream.table:
        return keys, map(Record, *given)
    return keys, map(Record, *given, pc.equal(rows[DIFF], 0).to_pylist())


def _headers(rows: pa.Table) -> Iterable[Sequence[Header]]:
    """The headers of each row; they are among the columns only where a record has some."""
    if HEADERS not in rows.column_names:
        return repeat((), rows.num_rows)
    return [
        tuple((each["key"], each["value"]) for each in listed or ())
        for listed in rows[HEADERS].to_pylist()
    ]


def _records_of_several(node: Process, rows: pa.Table) -> tuple[list[Any], Iterator[Record]]:
    """The same for the rows of several streams in one relation."""
    number, *columns = physical_names(node.input.schema.names)
    streams = rows[number].to_pylist()
    physical, keys, records = iter(columns), [], []
    for position, stream in enumerate(node.streams):
        own = rows.filter(pc.equal(rows[number], position))
        found = {column: own[next(physical)] for column in stream.schema.names}
        made = _records(stream, found, own)
        keys.append(iter(made[0]))
        records.append(made[1])
    return [next(keys[n]) for n in streams], (next(records[n]) for n in streams)


def _rows(columns: Sequence[list[Any]], count: int) -> Iterable[tuple[Any, ...]]:
    return zip(*columns, strict=True) if columns else repeat((), count)

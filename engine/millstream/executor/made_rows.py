"""What the processors of some tasks have made in a run, as relations."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.executor.stored_rows import column_of, key_columns
from millstream.model.batch import DIFF, PART, ROWTIME, SEQ
from millstream.model.physical import arrow_type, physical_names
from millstream.operators.arrival_sequence import ORIGIN
from millstream.operators.process import DUE, STREAM_TIME, VALUE
from millstream.operators.program import ProcessorCall, StoreTable
from millstream.processors.async_processor import AsyncTask
from millstream.processors.batches import ForwardedBatch, Integers, TaskBatches
from millstream.processors.running import NO_RECORD, Skipped, TaskProcessor
from millstream.state.tables import DELETED

OpenProcessor = TaskProcessor | TaskBatches | AsyncTask
SKIPPED = "skipped"
"""A column that only the relation of skipped records has. Of several that are skipped together, the
first one has the message."""


class MadeRows:
    """What all tasks of a run have made."""

    def __init__(self, call: ProcessorCall) -> None:
        self._call = call
        self._chunks: list[Sequence[pa.Array]] = []
        self._times: list[pa.Array] = []
        self._parts: list[Integers] = []
        self._causes: list[Integers] = []
        self._remembered: dict[int, tuple[int, list[int]]] = {}
        self._skipped: list[tuple[int, int, Skipped]] = []
        self._changes: dict[str, list[tuple[int, Any, Any]]] = {s.name: [] for s in call.stores}

    def add(self, part: int, forwarded: Sequence[ForwardedBatch], start: int) -> None:
        """Rows of a task, whose first record of the run is number `start`."""
        for chunk in forwarded:
            self._chunks.append(chunk.columns)
            self._times.append(chunk.times_ms)
            self._parts.append(np.full(len(chunk.causes), part, np.int32))
            self._causes.append(np.where(chunk.causes < 0, NO_RECORD, start + chunk.causes))

    def changed(
        self, part: int, instance: OpenProcessor, start: int, *, remembered: bool = True
    ) -> None:
        """The state of a task after its rows, and the records that it has skipped. `remembered`:
        its times may have changed, too."""
        for each in instance.skipped:
            place = NO_RECORD if each.place < 0 else start + each.place
            self._skipped.append((part, place, each))
        instance.skipped.clear()
        times = instance.times
        if remembered:
            self._remembered[part] = (times.stream_ms, list(times.due_ms))
        for name, store in instance.stores.named.items():
            self._changes[name] += [(part, key, value) for key, value in store.changes()]

    def relations(self, rows: pa.Table) -> dict[str, pa.Table]:
        """All relations by name."""
        call = self._call
        made = {
            call.target: self._output(rows),
            call.times_new: self._times_table(),
            call.skipped: self._skipped_table(rows),
        }
        return made | {s.changes: _changes_table(s, self._changes[s.name]) for s in call.stores}

    def _output(self, rows: pa.Table) -> pa.Table:
        schema = self._call.node.schema
        causes = np.concatenate([np.empty(0, np.int64), *self._causes])
        parts = np.concatenate([np.empty(0, np.int32), *self._parts])
        cause, count = _taken(rows, causes), len(causes)
        output = self._call.node.processor.output
        columns = [
            pa.chunked_array([chunk[number] for chunk in self._chunks], arrow_type(column.type))
            for number, column in enumerate(output)
        ]
        times = pa.chunked_array(self._times, pa.int64())
        columns += [times] * (len(schema.columns) - len(columns))
        columns += [pa.array(parts), pa.array(np.arange(count)), times]
        columns.append(pa.array(np.ones(count, np.int8)))
        columns += [cause[name] for name in self._call.carried]
        columns.append(pc.fill_null(cause[ORIGIN], NO_RECORD))
        names = [*physical_names(schema.names), PART, SEQ, ROWTIME, DIFF]
        return pa.Table.from_arrays(columns, names=[*names, *self._call.carried, ORIGIN])

    def _times_table(self) -> pa.Table:
        parts, times = list(self._remembered), self._remembered.values()
        columns = [
            pa.array(parts, pa.int32()),
            pa.array([stream for stream, _ in times], pa.int64()),
            pa.array([due for _, due in times], pa.list_(pa.int64())),
            pa.array([False] * len(parts), pa.bool_()),
        ]
        return pa.Table.from_arrays(columns, names=[PART, STREAM_TIME, DUE, DELETED])

    def _skipped_table(self, rows: pa.Table) -> pa.Table:
        """As the problems of expressions, see `operators.relation.reported`."""
        name = self._call.node.processor.name
        parts = [part for part, _, each in self._skipped for _ in range(each.count)]
        places = np.array(
            [place + n for _, place, each in self._skipped for n in range(each.count)], np.int64
        )
        origins = pc.fill_null(_taken(rows, places)[ORIGIN], NO_RECORD)
        texts: list[str | None] = []
        for _, _, each in self._skipped:
            texts += (_skipped_text(name, each), *repeat(None, each.count - 1))
        columns = [pa.array(parts, pa.int32()), origins, pa.array(texts, pa.string())]
        columns.append(pa.array([True] * len(parts), pa.bool_()))
        return pa.Table.from_arrays(columns, names=[PART, SEQ, "message", SKIPPED])


def _taken(rows: pa.Table, places: Integers) -> pa.Table:
    """The rows at these places; a row of NULLs where there is no record."""
    return rows.take(pa.array(np.maximum(places, 0), mask=places < 0))


def _skipped_text(processor: str, skipped: Skipped) -> str:
    count = skipped.count
    what = f"skipped {count} records from this one on" if count > 1 else "skipped the record"
    return f"Processor {processor}.{skipped.method} {what}: {users_traceback(skipped.error)}"


def users_traceback(error: BaseException) -> str:
    """The exception of a user's method as Python shows it."""
    # The first frame is the caller of the method.
    below = None if error.__traceback__ is None else error.__traceback__.tb_next
    return "".join(traceback.format_exception(type(error), error, below)).rstrip()


def _changes_table(store: StoreTable, changes: Sequence[tuple[int, Any, Any]]) -> pa.Table:
    columns = [
        pa.array([part for part, _, _ in changes], pa.int32()),
        *key_columns([key for _, key, _ in changes], store),
        column_of([value for _, _, value in changes], store.value),
        pa.array([value is None for _, _, value in changes], pa.bool_()),
    ]
    return pa.Table.from_arrays(columns, names=[PART, *store.key_columns, VALUE, DELETED])

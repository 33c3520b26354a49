"""Processors of whole batches: what users write, and the instance for one task."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.functions.function import OutputColumn
from millstream.model.event_time import LATEST
from millstream.model.physical import arrow_type
from millstream.processors.measuring import ProcessorMetrics
from millstream.processors.running import BEFORE, USERS_ERRORS, ProcessorError, Skipped, Times
from millstream.processors.stores import Opened, StoredRows, StoreKind, TaskStores
from millstream.processors.times import as_time

ROWTIME = "ROWTIME"
Integers = npt.NDArray[np.int64] | npt.NDArray[np.int32]


class BatchContext(Protocol):
    """What a batch processor is given in `init`, and can use until `close`."""

    @property
    def partition(self) -> int:
        """The partition of the task."""

    @property
    def stream_time(self) -> dt.datetime | None:
        """The greatest event time of the task's records; None before the first one."""

    def store(self, name: str, kind: StoreKind[Opened]) -> Opened:
        """A store of this task. Only `init` may call this, with the same stores each time."""

    def forward(self, batch: pa.RecordBatch | pa.Table | Mapping[str, Any]) -> None:
        """Emit rows of the output: columns by their names, of types that can be cast to the
        output's without loss; a column that is not there is NULL. With the column ROWTIME
        (milliseconds) there may be any number of rows. Without it there are as many as in the batch
        that is processed, and each has the time of the record in its place."""

    @property
    def task_id(self) -> str:
        """See `ProcessorContext.task_id`."""

    @property
    def metrics(self) -> ProcessorMetrics:
        """See `ProcessorContext.metrics`."""

    def commit(self) -> None:
        """See `ProcessorContext.commit`."""


class BatchProcessor:
    """A processor of whole batches: one instance for each task. Subclasses declare the columns of
    their `output`, as in CREATE STREAM.

    ```python
    class Scored(millstream.BatchProcessor):
        output = "id BIGINT KEY, score DOUBLE"

        def init(self, context):
            self.context = context

        def process(self, batch):
            scores = model.predict(batch["AMOUNT"].to_numpy().reshape(-1, 1))
            self.context.forward({"ID": batch["ID"], "SCORE": scores})
    ```
    How many records a batch has depends on how many are there: rows that depend on it are not the
    same when they are computed again. State belongs in stores; see `Processor`.
    """

    output: str = ""

    def init(self, context: BatchContext) -> None:
        """Called before the first batch."""

    def process(self, batch: pa.RecordBatch) -> None:
        """Called with the next records of the task, in their order: the columns of the stream by
        their names, and ROWTIME in milliseconds."""
        raise NotImplementedError(f"{type(self).__name__} has no method process")

    def close(self) -> None:
        """Called when the task is given up. Nothing can be forwarded or stored any more."""


@dataclass(frozen=True, slots=True)
class ForwardedBatch:
    """Rows of the output. `causes`: the number of the record in its batch that caused each."""

    columns: tuple[pa.Array, ...]
    times_ms: pa.Array
    causes: Integers


@dataclass(slots=True)
class _Context:
    """The `BatchContext` of one task."""

    partition: int
    output: Sequence[OutputColumn]
    stores: TaskStores
    stream_ms: int = BEFORE
    times: pa.Array | None = None
    """Those of the records that are processed."""
    forwarded: list[ForwardedBatch] = field(default_factory=list)
    subtopology: int = 0
    commits: bool = False
    metrics: ProcessorMetrics = field(default_factory=ProcessorMetrics)

    @property
    def task_id(self) -> str:
        """See `BatchContext`."""
        return f"{self.subtopology}_{self.partition}"

    def commit(self) -> None:
        """See `BatchContext`."""
        self.commits = True

    @property
    def stream_time(self) -> dt.datetime | None:
        """See `BatchContext`."""
        return None if self.stream_ms == BEFORE else as_time(self.stream_ms)

    def store(self, name: str, kind: StoreKind[Opened]) -> Opened:
        """See `BatchContext`."""
        return self.stores.add(name, kind)

    def forward(self, batch: pa.RecordBatch | pa.Table | Mapping[str, Any]) -> None:
        """See `BatchContext`."""
        if self.times is None:
            raise RuntimeError("forward is for process, not for init and close")
        given = _columns(batch)
        rows = len(next(iter(given.values()), ()))
        times = self._row_times(given.pop(ROWTIME, None), rows)
        if unknown := given.keys() - {column.name for column in self.output}:
            listed = ", ".join(column.name for column in self.output)
            raise ValueError(f"the output has no column {min(unknown)!r}; it has: {listed}")
        columns = tuple(_column(each, given.get(each.name), rows) for each in self.output)
        records = len(self.times)
        causes = np.arange(records) if rows == records else np.full(rows, records - 1)
        self.forwarded.append(ForwardedBatch(columns, times, causes))

    def _row_times(self, given: pa.Array | pa.ChunkedArray | None, rows: int) -> pa.Array:
        if given is None:
            assert self.times is not None
            if rows == len(self.times):
                return self.times
            raise ValueError(
                f"{rows} rows cannot have the times of {len(self.times)} records: give the column"
                " ROWTIME"
            )
        times = _cast(ROWTIME, given, pa.int64(), rows)
        near = pc.and_(pc.greater_equal(times, 0), pc.less_equal(times, LATEST))
        if times.null_count or not pc.all(near, min_count=0).as_py():
            raise ValueError("column ROWTIME: a row has no time, or one before 1970 or far away")
        return times


class TaskBatches:
    """The instance for one task."""

    def __init__(
        self,
        supplier: Callable[[], BatchProcessor],
        partition: int,
        rows: Callable[[str, StoreKind[Any]], StoredRows],
        output: Sequence[OutputColumn],
        times: Times,
        subtopology: int = 0,
    ) -> None:
        """See `TaskProcessor`."""
        self.stores = TaskStores(rows)
        self.skipped: list[Skipped] = []
        """See `TaskProcessor`."""
        self.context = _Context(
            partition, output, self.stores, times.stream_ms, subtopology=subtopology
        )
        self.stores.now = lambda: self.context.stream_ms
        self.processor = supplier()
        self.processor.init(self.context)
        self.stores.declared = True

    @property
    def times(self) -> Times:
        """What has to be remembered."""
        return Times(self.context.stream_ms)

    def run(
        self, batch: pa.RecordBatch, keys: Sequence[Any], *, skipping: bool = False
    ) -> list[ForwardedBatch]:
        """Process a batch with these keys; the rows that were forwarded. Raises ProcessorError, or
        skips all records; see `TaskProcessor.run`."""
        context = self.context
        self.stores.expect(keys)
        context.times = batch[ROWTIME]
        context.stream_ms = max(context.stream_ms, pc.max(context.times).as_py())
        if skipping:
            self.stores.mark()
        try:
            self.processor.process(batch)
        except USERS_ERRORS as error:
            if not skipping:
                raise ProcessorError(0, "process") from error
            self.stores.undo()
            context.forwarded = []
            self.skipped.append(Skipped(0, "process", error, batch.num_rows))
        context.times = None
        self.stores.purge()
        forwarded, context.forwarded = context.forwarded, []
        return forwarded

    def close(self) -> None:
        """Call the processor's `close`, and close the stores."""
        try:
            self.processor.close()
        finally:
            self.stores.close()


def _columns(
    batch: pa.RecordBatch | pa.Table | Mapping[str, Any],
) -> dict[str, pa.Array | pa.ChunkedArray]:
    if isinstance(batch, pa.RecordBatch | pa.Table):
        names = batch.schema.names
        if len(set(names)) < len(names):
            raise ValueError("two columns have one name")
        return dict(zip(names, batch.columns, strict=True))
    if not isinstance(batch, Mapping):
        raise TypeError(
            f"a {type(batch).__name__} is no batch: forward takes a pyarrow.RecordBatch or Table,"
            " or a dict of columns"
        )
    return {name: _array(name, values) for name, values in batch.items()}


def _array(name: str, values: Any) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"column {name}: {error}") from None


def _column(column: OutputColumn, values: pa.Array | pa.ChunkedArray | None, rows: int) -> pa.Array:
    kind = arrow_type(column.type)
    return pa.nulls(rows, kind) if values is None else _cast(column.name, values, kind, rows)


def _cast(name: str, values: pa.Array | pa.ChunkedArray, kind: pa.DataType, rows: int) -> pa.Array:
    try:
        made = values.cast(kind)
    except pa.ArrowException as error:
        raise ValueError(f"column {name}: {error}") from None
    if isinstance(made, pa.ChunkedArray):
        made = made.combine_chunks()
    if len(made) != rows:
        raise ValueError(f"column {name} has {len(made)} values, and another one {rows}")
    return made

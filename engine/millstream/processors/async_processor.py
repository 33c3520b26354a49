"""Processors that wait: what users write, and the instance for one task.

Many records are processed at the same time in one event loop, without threads. What they forward is
put in the order of the records, so the rows do not depend on which call returns first.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from millstream.processors.processor import Record, Schedule, TaskContext, TimeKind
from millstream.processors.running import (
    BEFORE,
    NO_RECORD,
    USERS_ERRORS,
    Context,
    Forwarded,
    Output,
    ProcessorError,
    RecordTask,
    RunningSchedule,
    Skipped,
    Times,
    earliest,
    next_due,
    row_time,
)
from millstream.processors.sending import Sent
from millstream.processors.stores import Noted, Opened, StoredRows, StoreKind, TaskStores
from millstream.processors.times import as_time, length_ms

AsyncPunctuate = Callable[[dt.datetime], Awaitable[None] | None]
_WINDOW = 10
"""So many times the concurrency, calls may have been made, most of which wait for their key."""


class AsyncContext(TaskContext, Protocol):
    """What an `AsyncProcessor` is given in `init`, and can use until `close`. Stream time is that
    of the record that is processed."""

    def store(self, name: str, kind: StoreKind[Opened]) -> Opened:
        """A store of this task. Only `init` may call this, with the same stores each time."""

    def schedule(
        self, interval: dt.timedelta, kind: TimeKind, punctuate: AsyncPunctuate
    ) -> Schedule:
        """Call a function each time `interval` has passed. All records before that point have been
        processed then, and none behind it."""

    def forward(
        self, key: Any, value: Mapping[str, Any], *, timestamp: dt.datetime | None = None
    ) -> None:
        """Emit a row of the output."""


class AsyncProcessor:
    """A processor whose calls wait, for a service or a database: one instance for each task.

    ```python
    class Enriched(millstream.AsyncProcessor):
        output = "id STRING KEY, city STRING"
        concurrency = 500

        async def init(self, context):
            self.context = context
            self.client = httpx.AsyncClient()

        async def process(self, record):
            found = await self.client.get(f"http://places/{record.key}")
            self.context.forward(record.key, {"CITY": found.json()["city"]})

        async def close(self):
            await self.client.aclose()
    ```
    Records of one key are processed one after another, in their order; those of several keys, and
    those without a key, at the same time. The event loop runs only while records are processed.
    State belongs in stores, where the calls for a key use what no other key uses; see `Processor`.
    """

    output: str = ""
    concurrency: int = 100
    """The most calls of `process` of a task that wait at the same time."""
    timeout: dt.timedelta | None = dt.timedelta(minutes=1)
    """How long a call may take before TimeoutError is raised in it; None: for ever."""

    async def init(self, context: AsyncContext) -> None:
        """Called before the first record."""

    async def process(self, record: Record) -> None:
        """Called for each record of the task."""
        raise NotImplementedError(f"{type(self).__name__} has no method process")

    async def close(self) -> None:
        """Called when the task is given up. Nothing can be forwarded or stored any more."""


@dataclass(slots=True)
class _Call:
    """A call of a user's method: for a record, with its place, or of a schedule."""

    place: int
    now_ms: int
    stream_ms: int
    forwarded: Forwarded = field(default_factory=Forwarded)
    undo: dict[str, dict[Any, Noted]] = field(default_factory=dict)
    """What it has changed in each store."""
    sent: list[Sent] = field(default_factory=list)
    over: bool = False


_CALL: ContextVar[_Call] = ContextVar("call")


@dataclass(slots=True)
class _Context(Context):
    """The `AsyncContext` of one task: what is asked for and done belongs to a call."""

    @property
    def stream_time(self) -> dt.datetime | None:
        """See `AsyncContext`."""
        call = _CALL.get(None)
        at = self.stream_ms if call is None else call.stream_ms
        return None if at == BEFORE else as_time(at)

    def time_of(self, timestamp: dt.datetime | None) -> int:
        """See `Context`."""
        call = _CALL.get(None)
        if call is not None and call.over:
            raise RuntimeError("forward came after the end of the call of process it belongs to")
        return row_time(BEFORE if call is None else call.now_ms, timestamp)

    def emit(self, row: Sequence[Any], at_ms: int) -> None:
        """See `Context`."""
        call = _CALL.get()
        call.forwarded.add(row, at_ms, call.place)

    @property
    def sending(self) -> list[Sent]:
        """See `Context`."""
        return _CALL.get().sent


class _Journal(MutableMapping[Any, Noted]):
    """What the current call has changed in a store."""

    def __init__(self, store: str) -> None:
        self._store = store

    @property
    def _own(self) -> dict[Any, Noted]:
        return _CALL.get().undo.setdefault(self._store, {})

    def __getitem__(self, key: Any) -> Noted:
        return self._own[key]

    def __setitem__(self, key: Any, noted: Noted) -> None:
        self._own[key] = noted

    def __delitem__(self, key: Any) -> None:
        del self._own[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


class AsyncTask(RecordTask[_Context]):
    """The instance for one task; `open` comes first."""

    def __init__(
        self,
        supplier: Callable[[], AsyncProcessor],
        partition: int,
        rows: Callable[[str, StoreKind[Any]], StoredRows],
        output: Output,
        times: Times,
        subtopology: int = 0,
    ) -> None:
        """See `TaskProcessor`."""
        stores = TaskStores(rows)
        super().__init__(_Context(partition, output, stores, subtopology=subtopology), times)
        self.processor = supplier()
        self._skipping = False
        if self.processor.concurrency < 1:
            raise ValueError("its concurrency is below 1")
        limit = self.processor.timeout
        self._timeout_s = None if limit is None else length_ms(limit, "a timeout") / 1_000

    async def open(self) -> None:
        """Initialise the processor."""
        await self.processor.init(self.context)
        self._initialised()

    async def run(
        self, records: Sequence[Record], keys: Sequence[Any], *, skipping: bool = False
    ) -> Forwarded:
        """Process the records of a batch, which have these keys; see `TaskProcessor.run`."""
        context, calls = self.context, list[_Call]()
        self._begin(keys, skipping=skipping)
        ready: list[tuple[_Call, Record]] = []
        for place, record in enumerate(records):
            before, now = context.stream_ms, record.timestamp_ms
            context.stream_ms = max(before, now)
            calls.append(call := _Call(place, now, context.stream_ms))
            ready.append((call, record))
            if now > before and self._is_due(before, now):
                await self._pass(ready)
                ready.clear()
                calls += await self._punctuated(context.schedules, place, now)
                self._next = earliest(context.schedules)
        await self._pass(ready)
        return self._ended(calls)

    async def punctuate(self, now: int, *, skipping: bool = False) -> Forwarded:
        """See `TaskProcessor.punctuate`."""
        self._begin((), skipping=skipping)
        for schedule in self.context.wall_schedules:
            schedule.begin(now)
        return self._ended(await self._punctuated(self.context.wall_schedules, NO_RECORD, now))

    async def close(self) -> None:
        """Call the processor's `close`, and close the stores."""
        try:
            await self.processor.close()
        finally:
            self.stores.close()

    def _begin(self, keys: Sequence[Any], *, skipping: bool) -> None:
        self._skipping = skipping
        self.stores.expect(keys)
        if skipping:
            self.stores.mark(_Journal)

    def _ended(self, calls: Sequence[_Call]) -> Forwarded:
        """What the calls have forwarded, in their order."""
        self.stores.purge()
        self.skipped.sort(key=lambda skipped: skipped.place)
        whole = Forwarded()
        for call in calls:
            whole.extend(call.forwarded)
            self.context.sent += call.sent
        return whole

    async def _punctuated(
        self, schedules: Sequence[RunningSchedule], place: int, now: int
    ) -> list[_Call]:
        """Call the schedules that are due, one after another."""
        calls = []
        while (schedule := next_due(schedules, now)) is not None:
            calls.append(call := _Call(place, now, self.context.stream_ms))
            made = self._called(call, "punctuate", schedule.punctuate, as_time(now))
            await asyncio.create_task(made)
            schedule.passed(now)
        return calls

    async def _pass(self, ready: Iterable[tuple[_Call, Record]]) -> None:
        """Process records, as many at the same time as may be. Raises the ProcessorError of the
        first one of those that fail first."""
        in_flight = _InFlight(self.processor.concurrency)
        last: dict[Any, asyncio.Task[None]] = {}
        try:
            for call, record in ready:
                await in_flight.room()
                key = _identity(record.key)
                work = self._process(call, record, in_flight.slots, last.get(key))
                task = in_flight.begin(work)
                if key is not None:
                    last[key] = task
            await in_flight.end()
        finally:
            await in_flight.cancel()

    async def _process(
        self,
        call: _Call,
        record: Record,
        slots: asyncio.Semaphore,
        before: asyncio.Task[None] | None,
    ) -> None:
        """Process a record behind the one `before` with its key; not at all if that has failed."""
        if before is not None:
            await asyncio.wait([before])
            if before.cancelled() or before.exception() is not None:
                return
        async with slots:
            await self._called(call, "process", self.processor.process, record)

    async def _called(
        self, call: _Call, method: str, function: Callable[[Any], Any], argument: Any
    ) -> None:
        """Call a user's method, in a task that calls nothing else."""
        _CALL.set(call)
        try:
            async with asyncio.timeout(self._timeout_s):
                made = function(argument)
                if inspect.isawaitable(made):
                    await made
        except (*USERS_ERRORS, asyncio.CancelledError) as error:
            own = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and own is not None and own.cancelling():
                raise
            self._failed(call, method, error)
        finally:
            call.over = True

    def _failed(self, call: _Call, method: str, error: BaseException) -> None:
        if not self._skipping:
            raise ProcessorError(call.place, method) from error
        self.stores.take_back(call.undo)
        call.forwarded, call.sent = Forwarded(), []
        self.skipped.append(Skipped(call.place, method, error))


class _InFlight:
    """The calls that have been made and have not ended."""

    def __init__(self, concurrency: int) -> None:
        self.slots = asyncio.Semaphore(concurrency)
        """For the calls that may wait at the same time; the others wait for their key."""
        self._room = asyncio.Semaphore(_WINDOW * concurrency)
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: list[BaseException] = []
        self._changed = asyncio.Event()

    async def room(self) -> None:
        """Wait until another call may be made; raises the error of one that has failed."""
        await self._room.acquire()
        self._check()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Make a call, for which there is room."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def end(self) -> None:
        """Wait for all calls; raises the error of the first record of those that fail first."""
        while self._tasks and not self._errors:
            self._changed.clear()
            await self._changed.wait()
        self._check()

    async def cancel(self) -> None:
        """Cancel the calls that have not ended."""
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _check(self) -> None:
        if self._errors:
            raise min(self._errors, key=lambda error: getattr(error, "place", -1))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._errors.append(error)
        if self._errors or not self._tasks:
            self._changed.set()


def _identity(key: Any) -> Any:
    """A key that can be looked up: lists and dicts cannot."""
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key

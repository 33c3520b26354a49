"""Runs the instance of a processor for one task, a batch of records at a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from millstream.functions.function import OutputColumn
from millstream.model.event_time import LATEST
from millstream.processors.measuring import ProcessorMetrics
from millstream.processors.processor import (
    Processor,
    Record,
    TimeKind,
)
from millstream.processors.sending import Header, Sent, as_sent
from millstream.processors.stores import StoredRows, StoreKind, TaskStores
from millstream.processors.times import as_ms, as_time, length_ms
from millstream.processors.values import accept

BEFORE = -(1 << 63)
_NEVER = (1 << 63) - 1
NO_RECORD = -1
"""In the place of the number of a record: the clock is the cause."""


@dataclass(frozen=True, slots=True)
class Forwarded:
    """Rows of the output: their values row by row in one list, which is no work for the garbage
    collector; of each its time, and the number of the record in its batch that caused it."""

    values: list[Any] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)
    causes: list[int] = field(default_factory=list)

    def add(self, row: Sequence[Any], at_ms: int, cause: int) -> None:
        """Add a row."""
        self.values.extend(row)
        self.times_ms.append(at_ms)
        self.causes.append(cause)

    def extend(self, others: Forwarded) -> None:
        """Add the rows of others."""
        self.values.extend(others.values)
        self.times_ms.extend(others.times_ms)
        self.causes.extend(others.causes)

    def cut(self, rows: int) -> None:
        """Remove all rows but the first ones."""
        width = len(self.values) // len(self.times_ms) if self.times_ms else 0
        del self.values[rows * width :], self.times_ms[rows:], self.causes[rows:]


class Output:
    """The columns of the output, keys first."""

    def __init__(self, columns: Sequence[OutputColumn]) -> None:
        self._names = [column.name for column in columns]
        self._accept = [accept(column.type) for column in columns]
        self._keys = sum(column.key for column in columns)
        self._values = dict.fromkeys(self._names[self._keys :])
        others = zip(self._values, self._accept[self._keys :], strict=True)
        self._fields = tuple(others) if self._keys == 1 else None
        """The value columns, where a key column stands before them."""

    def row(self, key: Any, value: Mapping[str, Any]) -> list[Any]:
        """The values of a row, keys first, as copies; raises ValueError or TypeError for those that
        are not accepted."""
        if self._fields is not None and value.keys() == self._values.keys():
            # The short way of most rows. What it does not accept is looked at again below.
            try:
                made = [self._accept[0](key)]
                for name, take in self._fields:
                    made.append(take(value[name]))
                return made
            except ValueError:
                pass
        return self._row(key, value)

    def _row(self, key: Any, value: Mapping[str, Any]) -> list[Any]:
        keys = key if self._keys > 1 else (key,)
        if not self._keys:
            if key is not None:
                raise ValueError("the output has no key column: forward None as the key")
            keys = ()
        elif len(keys) != self._keys:
            raise ValueError(f"the output has {self._keys} key columns, not {len(keys)}")
        if not value.keys() <= self._values.keys():
            unknown = next(name for name in value if name not in self._values)
            listed = ", ".join(self._values) or "none"
            raise ValueError(f"the output has no value column {unknown!r}; it has: {listed}")
        made: list[Any] = []
        try:
            for take, one in zip(self._accept, (*keys, *map(value.get, self._values)), strict=True):
                made.append(take(one))
        except ValueError as error:
            raise ValueError(f"column {self._names[len(made)]}: {error}") from None
        return made

    def split(self, row: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
        """Key and value of a row."""
        keys = self._keys
        key = row[0] if keys == 1 else tuple(row[:keys]) if keys else None
        return key, dict(zip(self._values, row[keys:], strict=True))


@dataclass(slots=True)
class RunningSchedule:
    """A schedule; `due_ms` is None before the first record, or before the first look at the
    clock."""

    interval_ms: int
    punctuate: Callable[[dt.datetime], object]
    due_ms: int | None = None
    cancelled: bool = False

    def cancel(self) -> None:
        """See `Schedule`."""
        self.cancelled = True

    def begin(self, now: int) -> None:
        """Time begins."""
        if self.due_ms is None:
            self.due_ms = now + self.interval_ms

    def passed(self, now: int) -> None:
        """It was called at this time: the next time is the first later one of its rhythm."""
        assert self.due_ms is not None
        missed = (now - self.due_ms) // self.interval_ms
        self.due_ms += (missed + 1) * self.interval_ms


@dataclass(frozen=True, slots=True)
class Times:
    """What a task remembers of time: stream time, and when each schedule is due, in the order in
    which `init` made them."""

    stream_ms: int = BEFORE
    due_ms: tuple[int, ...] = ()


USERS_ERRORS = (Exception, SystemExit)
"""What user code may raise: `sys.exit` ends its query, not the thread that others share."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Records that were skipped because user code had raised an exception. `place`: the number of
    the first one in its batch; `count`: how many."""

    place: int
    method: str
    error: BaseException
    count: int = 1


class TimedProcessor(Processor):
    """A processor whose records get other times than those that they have in their topics.

    `extractors`: by the names of streams, functions that return the time of a record."""

    extractors: Mapping[str, Callable[[Record], dt.datetime]]


class ProcessorError(Exception):
    """User code has raised an exception, which is the cause. `place`: the number of the record in
    its batch."""

    def __init__(self, place: int, method: str) -> None:
        super().__init__(method)
        self.place = place
        self.method = method


@dataclass(slots=True)
class Context:
    """The `ProcessorContext` of one task."""

    partition: int
    output: Output
    stores: TaskStores
    schedules: list[RunningSchedule] = field(default_factory=list)
    wall_schedules: list[RunningSchedule] = field(default_factory=list)
    forwarded: Forwarded = field(default_factory=Forwarded)
    stream_ms: int = BEFORE
    now_ms: int = BEFORE
    """The time of what is forwarded without one."""
    cause: int = 0
    subtopology: int = 0
    sent: list[Sent] = field(default_factory=list)
    metrics: ProcessorMetrics = field(default_factory=ProcessorMetrics)
    commits: bool = False
    """Whether a commit was asked for; the caller resets it."""

    @property
    def task_id(self) -> str:
        """See `ProcessorContext`."""
        return f"{self.subtopology}_{self.partition}"

    @property
    def stream_time(self) -> dt.datetime | None:
        """See `ProcessorContext`."""
        return None if self.stream_ms == BEFORE else as_time(self.stream_ms)

    def store(self, name: str, kind: StoreKind[Any] | None = None) -> Any:
        """See `ProcessorContext`."""
        if kind is None:
            raise ValueError(f"store {name!r} needs a kind, such as KeyValueStore('STRING', 'INT')")
        return self.stores.add(name, kind)

    def schedule(
        self, interval: dt.timedelta, kind: TimeKind, punctuate: Callable[[dt.datetime], object]
    ) -> RunningSchedule:
        """See `ProcessorContext`."""
        if self.stores.declared:
            raise RuntimeError("only init may call schedule")
        if not isinstance(kind, TimeKind):
            raise TypeError(f"{kind!r} is no kind of time: STREAM_TIME and WALL_CLOCK are")
        milliseconds = length_ms(interval, "an interval")
        made = RunningSchedule(milliseconds, punctuate)
        (self.schedules if kind is TimeKind.STREAM_TIME else self.wall_schedules).append(made)
        return made

    def forward(
        self,
        key: Any,
        value: Mapping[str, Any],
        *,
        timestamp: dt.datetime | None = None,
        to: str | None = None,
    ) -> None:
        """See `ProcessorContext`."""
        at_ms = self.time_of(timestamp)
        if to is not None:
            raise ValueError(
                f"there is no child {to!r}: only processors of a Topology have children"
            )
        self.emit(self.output.row(key, value), at_ms)

    def send(
        self,
        topic: str,
        key: bytes | str | None,
        value: bytes | str | None,
        *,
        timestamp: dt.datetime | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
    ) -> None:
        """See `ProcessorContext`."""
        at_ms = self.time_of(timestamp)
        self.sending.append(as_sent(topic, key, value, at_ms, headers, partition, self.partition))

    @property
    def sending(self) -> list[Sent]:
        """Where what is sent now belongs."""
        return self.sent

    def commit(self) -> None:
        """See `ProcessorContext`."""
        self.commits = True

    def time_of(self, timestamp: dt.datetime | None) -> int:
        """The time of a row that is forwarded now, in ms. Raises RuntimeError where nothing can be
        forwarded, ValueError for a time that no row can have."""
        now_ms = self.now_ms
        within = timestamp is None and 0 <= now_ms <= LATEST
        return now_ms if within else row_time(now_ms, timestamp)

    def emit(self, row: Sequence[Any], at_ms: int) -> None:
        """Add a row to the output."""
        forwarded = self.forwarded
        forwarded.values.extend(row)
        forwarded.times_ms.append(at_ms)
        forwarded.causes.append(self.cause)


def row_time(now_ms: int, timestamp: dt.datetime | None) -> int:
    """See `Context.time_of`."""
    if now_ms == BEFORE:
        raise RuntimeError("forward is for process and for schedules, not for init and close")
    at = now_ms if timestamp is None else as_ms(timestamp)
    if not 0 <= at <= LATEST:
        raise ValueError(f"a row cannot have the time {timestamp}, before 1970 or far away")
    return at


def _extracted(time: object) -> int:
    """The time of a record in ms. Raises TypeError and ValueError for what is none."""
    if not isinstance(time, dt.datetime):
        raise TypeError(f"the timestamp function has returned {time!r}, which is no datetime")
    at = as_ms(time)
    if not 0 <= at <= LATEST:
        raise ValueError(f"a record cannot have the time {time}, before 1970 or far away")
    return at


ContextOf = TypeVar("ContextOf", bound=Context)
_Call = Callable[[str, Callable[[Any], object], Any], None]


class RecordTask(Generic[ContextOf]):
    """What the instances for one task have in common that get their records one by one."""

    def __init__(self, context: ContextOf, times: Times) -> None:
        """`times`: what was remembered."""
        self.context = context
        self.stores = context.stores
        self.skipped: list[Skipped] = []
        """By runs that skip; the caller empties it."""
        self._next = 0
        self._remembered = times
        context.stream_ms = times.stream_ms
        self.stores.now = lambda: context.stream_ms

    def _initialised(self) -> None:
        """`init` has ended: its schedules go on where the task is."""
        self.stores.declared = True
        schedules, times = self.context.schedules, self._remembered
        for schedule, due in zip(schedules, times.due_ms, strict=False):
            schedule.due_ms = due
        if times.stream_ms != BEFORE:
            # A schedule that `init` makes since lately begins where the task is.
            for schedule in schedules[len(times.due_ms) :]:
                schedule.begin(times.stream_ms)
        self._next = earliest(schedules)

    @property
    def times(self) -> Times:
        """What has to be remembered."""
        context = self.context
        if context.stream_ms == BEFORE:
            return Times()
        return Times(context.stream_ms, tuple(map(_due, context.schedules)))

    def _is_due(self, before: int, now: int) -> bool:
        """Whether schedules are due, now that stream time has advanced."""
        if before == BEFORE:
            for schedule in self.context.schedules:
                schedule.begin(now)
            self._next = earliest(self.context.schedules)
        return now >= self._next


class TaskProcessor(RecordTask[Context]):
    """The instance for one task."""

    def __init__(
        self,
        supplier: Callable[[], Processor],
        partition: int,
        rows: Callable[[str, StoreKind[Any]], StoredRows],
        output: Output,
        times: Times,
        subtopology: int = 0,
    ) -> None:
        """`rows`: what a store held when the task was opened; `times`: what was remembered."""
        stores = TaskStores(rows)
        super().__init__(Context(partition, output, stores, subtopology=subtopology), times)
        self.processor = supplier()
        of = self.processor
        self._extractors = of.extractors if isinstance(of, TimedProcessor) else {}
        self.processor.init(self.context)
        self._initialised()

    def run(
        self, records: Iterable[Record], keys: Sequence[Any], *, skipping: bool = False
    ) -> Forwarded:
        """Process the records of a batch, which have these keys; the rows that were forwarded.

        Raises ProcessorError; the caller gives this instance up then, and all that it has changed.
        With `skipping`, what a failing call has done is undone instead, and noted in `skipped`.
        """
        context, call = self.context, self._skipping if skipping else self._failing
        process = self.processor.process
        if skipping:
            process = partial(self._skipping, "process", process)
        self.stores.expect(keys)
        numbered: Iterable[tuple[int, Record]] = enumerate(records)
        if self._extractors:
            numbered = self._timed(numbered, skipping=skipping)
        for place, record in numbered:
            context.cause, now = place, record.timestamp_ms
            context.now_ms, before = now, context.stream_ms
            context.stream_ms = max(before, now)
            try:
                process(record)
            except USERS_ERRORS as error:
                raise ProcessorError(place, "process") from error
            if now > before and self._is_due(before, now):
                _call_due(context.schedules, now, call)
                self._next = earliest(context.schedules)
        return self._ended()

    def _timed(
        self, numbered: Iterable[tuple[int, Record]], *, skipping: bool
    ) -> Iterator[tuple[int, Record]]:
        """The records with the times that the extractors of their streams return."""
        for place, record in numbered:
            extract = self._extractors.get(record.source)
            if extract is not None:
                try:
                    record.timestamp_ms = _extracted(extract(record))
                except USERS_ERRORS as error:
                    if not skipping:
                        raise ProcessorError(place, "timestamp") from error
                    self.skipped.append(Skipped(place, "timestamp", error))
                    continue
            yield place, record

    def punctuate(self, now: int, *, skipping: bool = False) -> Forwarded:
        """Call the schedules that are due by the clock of the wall; see `run`. No record is the
        cause of what they forward."""
        context = self.context
        context.cause, context.now_ms = NO_RECORD, now
        for schedule in context.wall_schedules:
            schedule.begin(now)
        call = self._skipping if skipping else self._failing
        _call_due(context.wall_schedules, now, call)
        return self._ended()

    def _ended(self) -> Forwarded:
        """What the calls of a run have forwarded."""
        context = self.context
        context.now_ms = BEFORE
        self.stores.purge()
        forwarded, context.forwarded = context.forwarded, Forwarded()
        return forwarded

    def _failing(self, method: str, function: Callable[[Any], object], argument: Any) -> None:
        try:
            function(argument)
        except USERS_ERRORS as error:
            raise ProcessorError(self.context.cause, method) from error

    def _skipping(self, method: str, function: Callable[[Any], object], argument: Any) -> None:
        forwarded, sent = len(self.context.forwarded.times_ms), len(self.context.sent)
        self.stores.mark()
        try:
            function(argument)
        except USERS_ERRORS as error:
            self.stores.undo()
            self.context.forwarded.cut(forwarded)
            del self.context.sent[sent:]
            self.skipped.append(Skipped(self.context.cause, method, error))

    def close(self) -> None:
        """Call the processor's `close`, and close the stores."""
        self.context.now_ms = BEFORE
        try:
            self.processor.close()
        finally:
            self.stores.close()


def earliest(schedules: Sequence[RunningSchedule]) -> int:
    """When the first one is due."""
    return min(map(_due, schedules), default=_NEVER)


def next_due(schedules: Sequence[RunningSchedule], now: int) -> RunningSchedule | None:
    """The next one to call of those that are due: those due first come first, and those of one time
    in the order in which they were made."""
    due = [schedule for schedule in schedules if _due(schedule) <= now]
    return min(due, key=_due, default=None)


def _call_due(schedules: Sequence[RunningSchedule], now: int, call: _Call) -> None:
    while (schedule := next_due(schedules, now)) is not None:
        call("punctuate", schedule.punctuate, as_time(now))
        schedule.passed(now)


def _due(schedule: RunningSchedule) -> int:
    return _NEVER if schedule.cancelled or schedule.due_ms is None else schedule.due_ms

"""What users write: a `Processor` with its `init`, `process` and `close`, and what it is given."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, overload

from millstream.processors.measuring import ProcessorMetrics
from millstream.processors.stores import Opened, StoreKind
from millstream.processors.times import as_time


class Record:
    """One record of the input. `key`: the value of the key column, a tuple of several, or None;
    `value`: the other columns by name."""

    __slots__ = (
        "deleted",
        "headers",
        "key",
        "offset",
        "partition",
        "source",
        "timestamp_ms",
        "topic",
        "value",
    )

    def __init__(
        self,
        key: Any,
        value: dict[str, Any],
        timestamp_ms: int,
        partition: int,
        source: str = "",
        topic: str = "",
        offset: int = -1,
        headers: Sequence[tuple[str, bytes | None]] = (),
        deleted: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.timestamp_ms = timestamp_ms
        """Its event time in milliseconds since 1970."""
        self.partition = partition
        """The partition of the task, from which it was read."""
        self.source = source
        """The name of its stream; in a `Topology`, of the node that has forwarded it."""
        self.topic = topic
        """The topic from which it was read; empty if a processor has made it."""
        self.offset = offset
        """Its offset there; -1 if a processor has made it."""
        self.headers = headers
        """Its headers. What is forwarded for it has them too, unless a processor of a `Topology`
        stands between."""
        self.deleted = deleted
        """Whether this is a change of a table that removes the row of the key: all values are
        None."""

    @property
    def timestamp(self) -> dt.datetime:
        """Its event time, in UTC."""
        return as_time(self.timestamp_ms)

    def __repr__(self) -> str:
        return f"Record({self.key!r}, {self.value!r}, {self.timestamp_ms})"


class TimeKind(Enum):
    """The clock of a schedule."""

    STREAM_TIME = "STREAM_TIME"
    """The greatest event time of the records that the task has processed."""
    WALL_CLOCK = "WALL_CLOCK"
    """The time of day."""


STREAM_TIME, WALL_CLOCK = TimeKind.STREAM_TIME, TimeKind.WALL_CLOCK
Punctuate = Callable[[dt.datetime], None]


class Schedule(Protocol):
    """A schedule of a processor."""

    def cancel(self) -> None:
        """Call the function no more."""


class TaskContext(Protocol):
    """What processors of single records are given, whether they wait or not."""

    @property
    def partition(self) -> int:
        """The partition of the task."""

    @property
    def task_id(self) -> str:
        """The sub-topology and the partition of the task, such as 0_3."""

    @property
    def stream_time(self) -> dt.datetime | None:
        """The greatest event time of the task's records; None before the first one."""

    @property
    def metrics(self) -> ProcessorMetrics:
        """Figures of your own: `context.metrics.add("large_orders")`."""

    def send(
        self,
        topic: str,
        key: bytes | str | None,
        value: bytes | str | None,
        *,
        timestamp: dt.datetime | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> None:
        """Write a record to a topic that exists, as bytes or text: for topics whose names are known
        only now, and records of other formats. It is committed together with what is forwarded.
        Without a `partition` its key decides. Back-fills cannot send."""

    def commit(self) -> None:
        """Ask for a commit soon, before `commit.interval.ms` is over. Whether and when there is one
        never changes any result."""


class ProcessorContext(TaskContext, Protocol):
    """What a processor is given in `init`, and can use until `close`."""

    @overload
    def store(self, name: str, kind: StoreKind[Opened]) -> Opened: ...

    @overload
    def store(self, name: str) -> Any: ...

    def store(self, name: str, kind: Any = None) -> Any:
        """A store of this task. Only `init` may call this, with the same stores each time. Without
        a kind, a store that `Topology.add_store` gives to several processors."""

    def schedule(self, interval: dt.timedelta, kind: TimeKind, punctuate: Punctuate) -> Schedule:
        """Call a function with the time each time `interval` has passed. If more than one interval
        has passed at once, it is called once. Only `init` may call this.

        In stream time it is first called so long after the first record, and never without a
        record. By the clock of the wall it is first called so long after the task was opened, and
        not in back-fills; what it makes depends on when it is called, so it may differ if it has to
        be made again after a failure."""

    def forward(
        self,
        key: Any,
        value: Mapping[str, Any],
        *,
        timestamp: dt.datetime | None = None,
        to: str | None = None,
    ) -> None:
        """Emit a row of the output: key and value as in `Record`; a column that is not in `value`
        is NULL. `timestamp`: by default that of the record, or the time of the schedule. `to`: in a
        `Topology` the child that gets it, by default all of them."""


class Processor:
    """A processor: one instance for each task. Subclasses declare the columns of their `output`,
    as in CREATE STREAM, and process records.

    ```python
    class Silence(millstream.Processor):
        output = "device STRING KEY, seen TIMESTAMP"

        def init(self, context): ...
        def process(self, record): ...
    ```
    State belongs in stores: an instance is created anew, from what is committed, after a failure or
    when its task moves, so what it keeps in attributes may be lost. `init` is called once more, for
    an instance that processes nothing, to learn which stores there are.
    """

    output: str | Mapping[str, str] = ""
    """In a `Topology` also columns for each child, by its name."""

    def init(self, context: ProcessorContext) -> None:
        """Called before the first record."""

    def process(self, record: Record) -> None:
        """Called for each record of the task, in their order."""
        raise NotImplementedError(f"{type(self).__name__} has no method process")

    def close(self) -> None:
        """Called when the task is given up. Nothing can be forwarded or stored any more."""

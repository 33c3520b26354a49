"""The processors of a topology that are connected, as one processor.

What one of them forwards is passed to its children at once, in the same call. So a record has gone
through all of them before the next one comes.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from millstream.functions.function import OutputColumn
from millstream.model.types import INTEGER
from millstream.processors.nodes import Extractor, Part, Partitioner, ProcessorNode, SinkNode
from millstream.processors.processor import (
    Processor,
    ProcessorContext,
    Punctuate,
    Record,
    Schedule,
    TimeKind,
)
from millstream.processors.running import USERS_ERRORS, Context, Output, TimedProcessor
from millstream.processors.stores import StoreKind
from millstream.processors.values import accept

PARTITION = OutputColumn("PARTITION", INTEGER, key=False)
"""What the function that is the partitioner of a sink has returned."""
_NUMBER = accept(PARTITION.type)
PEEKED = 100
"""The rows of each node and task that are kept to be looked at."""


@dataclass(frozen=True, slots=True)
class Peeked:
    """A row that has passed a node. `partition`: that of its task."""

    timestamp_ms: int
    partition: int
    key: Any
    value: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the columns of a sink begin in the rows of a composition, and the number of the sink,
    which is in the first column; None if there is one sink."""

    start: int
    number: int | None


@dataclass(frozen=True, slots=True)
class Composition:
    """A connected part of a topology as the supplier of its processor.

    `sources`: by the name of a stream, the source nodes that read it; `extractors`: what returns
    the times of its records. `columns`: by the names of a
    node and its child, the columns of what is forwarded there; not from a source to a processor,
    which gets records as they are. `stores`: those that processors share, with their names.
    `places`: by the names of sinks; `width`: the number of columns of the rows that are written.
    """

    part: Part
    sources: Mapping[str, tuple[str, ...]]
    extractors: Mapping[str, Extractor]
    columns: Mapping[tuple[str, str], tuple[OutputColumn, ...]]
    stores: Mapping[str, tuple[StoreKind[Any], tuple[str, ...]]]
    places: Mapping[str, Place]
    width: int
    instances: WeakSet[Composed] = field(default_factory=WeakSet, compare=False)

    def __call__(self) -> Composed:
        """A new instance."""
        made = Composed(self)
        self.instances.add(made)
        return made

    def peek(self, node: str, count: int) -> list[Peeked]:
        """The last rows that have passed a node in this process, in the order of their times."""
        rows = [row for each in tuple(self.instances) for row in each.seen[node].copy()]
        return sorted(rows, key=lambda row: row.timestamp_ms)[max(0, len(rows) - count) :]


class Composed(TimedProcessor):
    """The instance of a composition for one task."""

    def __init__(self, of: Composition) -> None:
        self._of = of
        self.extractors = of.extractors
        self.seen: dict[str, deque[Peeked]] = {
            node.name: deque(maxlen=PEEKED) for node in of.part.nodes
        }
        """The last rows of each node."""
        self._processors: list[_RunningNode] = []
        self._sources: dict[str, list[_RunningSource]] = {}

    def init(self, context: ProcessorContext) -> None:
        """Make the processors and initialise them in the order of their nodes."""
        assert isinstance(context, Context)
        part = self._of.part
        shared = {name: context.store(name, kind) for name, (kind, _) in self._of.stores.items()}
        targets: dict[str, _RunningNode | _RunningSink] = {
            sink.name: _RunningSink(
                sink, context, self._of.places[sink.name], self._of.width, self.seen[sink.name]
            )
            for sink in part.sinks
        }
        for node in part.processors:
            own = [name for name, (_, users) in self._of.stores.items() if node.name in users]
            stores = {name: shared[name] for name in own}
            made = _RunningNode(node, context, stores, self.seen[node.name])
            targets[node.name] = made
            self._processors.append(made)
        for running in self._processors:
            running.context.children = self._edges(running.name, targets)
        for stream, names in self._of.sources.items():
            self._sources[stream] = [self._source(name, targets) for name in names]
        for running in self._processors:
            running.init()

    def _source(
        self, name: str, targets: Mapping[str, _RunningNode | _RunningSink]
    ) -> _RunningSource:
        below = [targets[child.name] for child in self._of.part.children(name)]
        nodes = [target for target in below if isinstance(target, _RunningNode)]
        return _RunningSource(name, nodes, self._edges(name, targets), self.seen[name])

    def _edges(
        self, name: str, targets: Mapping[str, _RunningNode | _RunningSink]
    ) -> dict[str, _Edge]:
        columns = self._of.columns
        return {
            child.name: _Edge(name, Output(columns[name, child.name]), targets[child.name])
            for child in self._of.part.children(name)
            if (name, child.name) in columns
        }

    def process(self, record: Record) -> None:
        """Pass a record to the sources of its stream."""
        for source in self._sources[record.source]:
            source.take(record)

    def close(self) -> None:
        """Close the processors in the reverse order, all of them even if one fails."""
        with ExitStack() as closing:
            for running in self._processors:
                closing.callback(running.processor.close)


@dataclass(frozen=True, slots=True)
class _Edge:
    """From a node to one of its children."""

    sender: str
    output: Output
    child: _RunningNode | _RunningSink

    def send(self, key: Any, value: Mapping[str, Any], at_ms: int) -> None:
        """Pass a row on; raises ValueError and TypeError for one that has not the columns."""
        self.child.take(self.output.row(key, value), self, at_ms)


@dataclass(frozen=True, slots=True)
class _RunningSource:
    """A source. `nodes`: the processors among its children; `sinks`: the way to its sinks."""

    name: str
    nodes: Sequence[_RunningNode]
    sinks: Mapping[str, _Edge]
    seen: deque[Peeked]

    def take(self, record: Record) -> None:
        """Pass a record on. Each child gets its own, so that none sees what another one changes in
        it."""
        key, value, at_ms = record.key, record.value, record.timestamp_ms
        self.seen.append(Peeked(at_ms, record.partition, key, value))
        for node in self.nodes:
            own = _copied(value)
            node.process(
                Record(
                    key,
                    own,
                    at_ms,
                    record.partition,
                    self.name,
                    record.topic,
                    record.offset,
                    record.headers,
                    record.deleted,
                )
            )
        for edge in self.sinks.values():
            edge.send(key, value, at_ms)


def _copied(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: deepcopy(each) if isinstance(each, list | dict) else each
        for name, each in value.items()
    }


@dataclass(frozen=True, slots=True)
class _RunningSink:
    """A sink: its rows leave the composition."""

    node: SinkNode
    context: Context
    place: Place
    width: int
    seen: deque[Peeked]

    def take(self, row: list[Any], edge: _Edge, at_ms: int) -> None:
        """Write a row."""
        key, value = edge.output.split(row)
        if callable(self.node.partitioner):
            row = [*row, _partition(self.node.name, self.node.partitioner, key, value)]
        self.seen.append(Peeked(at_ms, self.context.partition, key, value))
        if self.place.number is None:
            self.context.emit(row, at_ms)
            return
        start = self.place.start
        before = [self.place.number, *(None for _ in range(start - 1))]
        after = (None for _ in range(self.width - start - len(row)))
        self.context.emit([*before, *row, *after], at_ms)


def _partition(sink: str, partitioner: Partitioner, key: Any, value: Mapping[str, Any]) -> Any:
    """The number of a row's partition, or None. Raises what the function raises, and ValueError for
    what is no number."""
    try:
        return _NUMBER(partitioner(key, _copied(value)))
    except USERS_ERRORS as error:
        error.add_note(f"In the partitioner of sink {sink}")
        raise


class _RunningNode:
    """A processor and its context."""

    def __init__(
        self,
        node: ProcessorNode,
        outer: Context,
        shared: Mapping[str, Any],
        seen: deque[Peeked],
    ) -> None:
        self.name = node.name
        made = node.supplier()
        assert isinstance(made, Processor)
        self.processor = made
        self.context = _NodeContext(node.name, outer, shared)
        self._outer = outer
        self._seen = seen

    def init(self) -> None:
        """Initialise the processor."""
        try:
            self.processor.init(self.context)
        except USERS_ERRORS as error:
            _note(error, self.name)
            raise

    def take(self, row: list[Any], edge: _Edge, at_ms: int) -> None:
        """Process a row."""
        key, value = edge.output.split(row)
        self.process(Record(key, value, at_ms, self._outer.partition, edge.sender))

    def process(self, record: Record) -> None:
        """Process a record, which has its time also for what is forwarded."""
        outer, at_ms = self._outer, record.timestamp_ms
        # A copy: the processor may change its own.
        self._seen.append(Peeked(at_ms, record.partition, record.key, dict(record.value)))
        before, outer.now_ms = outer.now_ms, at_ms
        try:
            self.processor.process(record)
        except USERS_ERRORS as error:
            _note(error, self.name)
            raise
        finally:
            outer.now_ms = before


class _NodeContext:
    """The `ProcessorContext` of one processor of a composition."""

    def __init__(self, name: str, outer: Context, shared: Mapping[str, Any]) -> None:
        self.children: Mapping[str, _Edge] = {}
        self._name = name
        self._outer = outer
        self._shared = shared
        self.partition, self.task_id = outer.partition, outer.task_id
        self.send, self.commit, self.metrics = outer.send, outer.commit, outer.metrics

    @property
    def stream_time(self) -> dt.datetime | None:
        """See `ProcessorContext`."""
        return self._outer.stream_time

    def store(self, name: str, kind: StoreKind[Any] | None = None) -> Any:
        """See `ProcessorContext`."""
        if kind is not None:
            return self._outer.store(f"{self._name}_{name}", kind)
        if name not in self._shared:
            raise ValueError(f"processor {self._name} has no store {name!r} by add_store")
        return self._shared[name]

    def schedule(self, interval: dt.timedelta, kind: TimeKind, punctuate: Punctuate) -> Schedule:
        """See `ProcessorContext`."""

        def noted(time: dt.datetime) -> None:
            try:
                punctuate(time)
            except USERS_ERRORS as error:
                _note(error, self._name)
                raise

        return self._outer.schedule(interval, kind, noted)

    def forward(
        self,
        key: Any,
        value: Mapping[str, Any],
        *,
        timestamp: dt.datetime | None = None,
        to: str | None = None,
    ) -> None:
        """See `ProcessorContext`."""
        at_ms = self._outer.time_of(timestamp)
        if to is None:
            for edge in self.children.values():
                edge.send(key, value, at_ms)
        elif to in self.children:
            self.children[to].send(key, value, at_ms)
        else:
            listed = ", ".join(self.children) or "none"
            raise ValueError(f"{self._name} has no child {to!r}; it has: {listed}")


def _note(error: BaseException, name: str) -> None:
    """Say in which node an exception was raised, below its message; only the innermost one does."""
    if not getattr(error, "__notes__", None):
        error.add_note(f"In node {name} of the topology")


def sink_columns(
    columns: Sequence[tuple[str, tuple[OutputColumn, ...]]], mark: OutputColumn
) -> tuple[tuple[OutputColumn, ...], dict[str, Place]]:
    """The columns of the rows of a composition with these sinks, and the place of each: the columns
    of the one sink as they are; or `mark`, the number of the sink, and the columns of all of them,
    which then are no keys."""
    if len(columns) == 1:
        ((name, own),) = columns
        return own, {name: Place(0, None)}
    found, places = [mark], {}
    for number, (name, own) in enumerate(columns):
        places[name] = Place(len(found), number)
        found += (OutputColumn(f"{number}_{c.name}", c.type, key=False) for c in own)
    return tuple(found), places

"""From the connected parts of a topology to processors of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from millstream.functions.function import OutputColumn, ProcessorFunction
from millstream.model.errors import StatementError
from millstream.model.names import folded
from millstream.model.types import INTEGER
from millstream.processors.composed import PARTITION, Composition, Place, sink_columns
from millstream.processors.definition import columns_of, function_of, not_registered
from millstream.processors.nodes import (
    AnyProcessor,
    Extractor,
    Part,
    ProcessorNode,
    SinkNode,
    SourceNode,
)
from millstream.processors.processor import Processor
from millstream.processors.running import USERS_ERRORS
from millstream.processors.single import SingleProcessor, single_processor
from millstream.processors.stores import StoreKind

SINK = OutputColumn("SINK", INTEGER, key=False)
"""The number of the sink of a row, where there are several."""
Columns = tuple[OutputColumn, ...]
SharedStores = Mapping[str, tuple[StoreKind[Any], tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class CompiledPart:
    """A part of a topology. `streams`: the names of those that it reads; `sinks`: the columns of
    each, in the order of their nodes."""

    function: ProcessorFunction
    composition: Composition | SingleProcessor
    streams: tuple[str, ...]
    sinks: Mapping[str, Columns]

    def place(self, sink: str) -> Place:
        """Where the columns of a sink are in the output of the function."""
        return self.composition.places[sink]


def compile_part(
    name: str,
    part: Part,
    streams: Mapping[str, Sequence[str]],
    stores: SharedStores,
) -> CompiledPart:
    """Compile a part. `streams`: by the name of a source, the names of the streams that it reads;
    `stores`: the shared ones of the topology. Makes an instance of each processor, to learn its
    output and its stores. Raises StatementError."""
    readers = _readers(part, streams)
    try:
        made = {node.name: node.supplier() for node in part.processors}
        users = {store: names for store, (_, names) in stores.items()}
        if (single := single_processor(part, made, users)) is not None:
            output = columns_of(single.output)
            function = function_of(name, single, single(), output)
            return CompiledPart(function, single, tuple(readers), {part.sinks[0].name: output})
        forwarded = dict(_forwarded(part, made))
        sinks = {sink.name: _written(sink, forwarded) for sink in part.sinks}
        output, places = sink_columns(list(sinks.items()), SINK)
        known = {node.name for node in part.processors}
        composition = Composition(
            part,
            readers,
            _extractors(part, streams),
            forwarded,
            {store: users for store, users in stores.items() if known & {*users[1]}},
            places,
            len(output),
        )
        function = function_of(name, composition, composition(), output)
    except StatementError:
        raise
    except USERS_ERRORS as error:
        raise not_registered(name, error) from error
    return CompiledPart(function, composition, tuple(readers), sinks)


def compile_parts(
    name: str, parts: Sequence[Part], stores: SharedStores
) -> tuple[CompiledPart, ...]:
    """All parts of a topology, each behind those whose sinks it reads. A single one has the name of
    the application, others a number too. Raises StatementError."""
    sinks = {sink.topic: sink.name for part in parts for sink in part.sinks}
    writers = {sink.topic: n for n, part in enumerate(parts) for sink in part.sinks}
    for source in (source for part in parts for source in part.sources):
        if source.declares and source.topics[0] in sinks:
            raise StatementError(
                f"Source {source.name} reads the topic {source.topics[0]}, which sink"
                f" {sinks[source.topics[0]]} writes",
                hint="Leave out its key and value: it has the columns of the sink.",
            )
    before = {
        n: {writers[topic] for source in part.sources for topic in _from_sinks(source, sinks)}
        for n, part in enumerate(parts)
    }
    try:
        order = tuple(TopologicalSorter(before).static_order())
    except CycleError:
        raise StatementError(
            "The topology has a cycle through topics: a source reads what its own records lead to"
        ) from None
    try:
        streams = {
            source.name: _streams(source, sinks) for part in parts for source in part.sources
        }
    except ValueError as error:
        raise StatementError(
            f"A source without columns reads streams: {error}",
            hint="Or give the columns of the topic with key and value.",
        ) from None
    called = [name] if len(parts) == 1 else [f"{name}_{n}" for n in before]
    return tuple(compile_part(called[n], parts[n], streams, stores) for n in order)


def _from_sinks(source: SourceNode, sinks: Mapping[str, str]) -> list[str]:
    return [] if source.declares else [topic for topic in source.topics if topic in sinks]


def _streams(source: SourceNode, sinks: Mapping[str, str]) -> list[str]:
    """The streams that a source reads: its own, those of sinks, or others by their names."""
    if source.declares:
        return [source.name.upper()]
    return [sinks[t].upper() if t in sinks else folded(t) for t in source.topics]


def source_columns(source: SourceNode) -> Columns:
    """The columns that a source declares. Raises StatementError and ValueError."""
    keys = columns_of(source.key) if source.key else ()
    values = columns_of(source.value) if source.value else ()
    marked = next((column for column in (*keys, *values) if column.key), None)
    if marked is not None:
        raise StatementError(
            f"Source {source.name}: leave out KEY of {marked.name}",
            hint="The columns of key are the key.",
        )
    columns = (*(OutputColumn(c.name, c.type, key=True) for c in keys), *values)
    names = [column.name for column in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise StatementError(f"Source {source.name} has the column {twice} twice")
    return columns


def _readers(part: Part, streams: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """By the name of a stream, the sources that read it."""
    found: dict[str, tuple[str, ...]] = {}
    for source in part.sources:
        for stream in streams[source.name]:
            found[stream] = (*found.get(stream, ()), source.name)
    return found


def _extractors(part: Part, streams: Mapping[str, Sequence[str]]) -> dict[str, Extractor]:
    """By the name of a stream, the function that returns the times of its records."""
    found: dict[str, Extractor] = {}
    owners: dict[str, SourceNode] = {}
    for source in part.sources:
        for stream in streams[source.name]:
            first = owners.setdefault(stream, source)
            if callable(source.timestamp):
                found[stream] = source.timestamp
            if first.timestamp != source.timestamp and found:
                raise StatementError(
                    f"Sources {first.name} and {source.name} read {stream}, with different times:"
                    " a record has one",
                    hint="Give them the same function as timestamp.",
                )
    return found


def _forwarded(
    part: Part, made: Mapping[str, AnyProcessor]
) -> Iterator[tuple[tuple[str, str], Columns]]:
    """The columns of what each node forwards to each of its children."""
    for source in part.sources:
        sinks = [each for each in part.children(source.name) if isinstance(each, SinkNode)]
        for sink in sinks:
            if not source.declares:
                raise StatementError(
                    f"Sink {sink.name} gets the records of source {source.name}, whose columns are"
                    " not given",
                    hint="Give the source key and value, or add a processor between them.",
                )
            yield (source.name, sink.name), source_columns(source)
    for node in part.processors:
        children = [child.name for child in part.children(node.name)]
        for child, text in _outputs(node, made[node.name], children).items():
            yield (node.name, child), columns_of(text)


def _outputs(node: ProcessorNode, made: AnyProcessor, children: Sequence[str]) -> dict[str, str]:
    """The text of the output for each child of a processor."""
    if not isinstance(made, Processor):
        raise TypeError(f"{node.name}: {type(made).__name__} is no millstream.Processor")
    if isinstance(made.output, str):
        if children and not made.output:
            raise StatementError(
                f"Processor {node.name} declares no output, and has the child {children[0]}",
                hint='Such as output = "id STRING KEY, n BIGINT" in its class.',
            )
        return dict.fromkeys(children, made.output)
    if {*made.output} != {*children}:
        raise StatementError(
            f"The output of processor {node.name} is for {_listed(made.output)}, and its children"
            f" are {_listed(children)}",
            hint="Give columns for each child, or one text for all of them.",
        )
    return dict(made.output)


def _written(sink: SinkNode, forwarded: Mapping[tuple[str, str], Columns]) -> Columns:
    """The columns of a sink: those of each of its parents."""
    first, *others = sink.parents
    columns = forwarded[first, sink.name]
    for parent in others:
        if forwarded[parent, sink.name] != columns:
            raise StatementError(
                f"Sink {sink.name} gets {_shown(columns)} from {first}, and"
                f" {_shown(forwarded[parent, sink.name])} from {parent}",
                hint="Give them the same columns, or a sink each.",
            )
    if not callable(sink.partitioner):
        return columns
    if PARTITION.name in (column.name for column in columns):
        raise StatementError(
            f"Sink {sink.name} has the column PARTITION, which is where its partitioner writes",
            hint="Name that column as the partitioner, or rename it.",
        )
    return (*columns, PARTITION)


def _shown(columns: Columns) -> str:
    return ", ".join(f"{c.name} {c.type}{' KEY' if c.key else ''}" for c in columns)


def _listed(names: Mapping[str, str] | Sequence[str]) -> str:
    return ", ".join(sorted(names)) or "none"

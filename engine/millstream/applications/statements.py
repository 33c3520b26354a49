"""The statements that make an application of a topology: its streams and queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.catalog.formats import ANY_COLUMNS, ANY_VALUES, internal_format
from millstream.processors.composed import PARTITION
from millstream.processors.composing import Columns, CompiledPart, source_columns
from millstream.processors.nodes import SinkNode, SourceNode
from millstream_parser import parse_type, print_statement
from millstream_parser import statements as s

_ALL = (s.SelectItem(exp.Star()),)
FORWARDED = "FORWARDED"


@dataclass(frozen=True, slots=True)
class Planned:
    """`sources`: the streams over topics that there are, or are created. `queries`: the streams
    that are written, each behind what it reads."""

    sources: tuple[s.CreateSource, ...]
    queries: tuple[s.CreateAs, ...]

    @property
    def between(self) -> frozenset[str]:
        """The names of the streams with the rows of several sinks."""
        sinks = (query for query in self.queries if query.query.source.processor is None)
        return frozenset(sink.query.source.name for sink in sinks)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all streams, in the order of their creation."""
        sources = tuple(source.name for source in self.sources)
        return (*sources, *(query.name for query in self.queries))


def script(parts: Sequence[CompiledPart]) -> str:
    """The statements as text."""
    plan = planned(parts)
    statements: list[s.Statement] = [*plan.sources, *plan.queries]
    return "\n".join(print_statement(each) + ";" for each in statements)


def planned(parts: Sequence[CompiledPart]) -> Planned:
    """The statements of an application."""
    sources = tuple(
        _source(source)
        for part in parts
        for source in part.composition.part.sources
        if source.declares
    )
    return Planned(sources, tuple(query for part in parts for query in _queries(part)))


def _source(source: SourceNode) -> s.CreateSource:
    """The stream of a source that gives its columns."""
    columns = source_columns(source)
    properties = _properties(source.topics[0], source.format, source.partitions, columns)
    if isinstance(source.timestamp, str):
        properties += (("TIMESTAMP", source.timestamp),)
    elements = (
        s.Element(
            column.name,
            parse_type(str(column.type)),
            s.ColumnRole.KEY if column.key else s.ColumnRole.VALUE,
        )
        for column in columns
    )
    return s.CreateSource("STREAM", source.name.upper(), tuple(elements), properties)


def _queries(part: CompiledPart) -> Iterator[s.CreateAs]:
    """One query that writes the one sink; or one whose stream has the rows of all sinks, and one
    for each of them."""
    first, *others = part.streams
    called = part.function.name
    processed = s.AliasedSource(first, None, None, called, tuple(others))
    sinks = part.composition.part.sinks
    if len(sinks) == 1:
        yield _sink(sinks[0], part.sinks[sinks[0].name], s.Query(_ALL, processed))
        return
    between = f"{called}_{FORWARDED}"
    properties: s.Properties = (("VALUE_FORMAT", ANY_VALUES.name),)
    yield s.CreateAs("STREAM", between, s.Query(_ALL, processed, emit="CHANGES"), properties)
    for sink in sinks:
        yield _sink(sink, part.sinks[sink.name], _chosen(part, sink, between))


def _chosen(part: CompiledPart, sink: SinkNode, between: str) -> s.Query:
    """The rows of a sink among those of all sinks of its part."""
    columns = part.sinks[sink.name]
    place = part.place(sink.name)
    held = part.function.output[place.start : place.start + len(columns)]
    items = tuple(
        s.SelectItem(_column(own.name), column.name)
        for own, column in zip(held, columns, strict=True)
    )
    keys = (own for own, column in zip(held, columns, strict=True) if column.key)
    number = exp.Literal.number(str(place.number))
    return s.Query(
        items,
        s.AliasedSource(between),
        where=exp.EQ(this=_column("SINK"), expression=number),
        partition_by=tuple(_column(key.name) for key in keys),
    )


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _sink(sink: SinkNode, columns: Columns, query: s.Query) -> s.CreateAs:
    """The stream of a sink."""
    properties = _properties(sink.topic, sink.format, sink.partitions, columns)
    if sink.partitioner is not None:
        column = PARTITION.name if callable(sink.partitioner) else sink.partitioner
        properties += (("PARTITION_COLUMN", column),)
    return s.CreateAs("STREAM", sink.name.upper(), replace(query, emit="CHANGES"), properties)


def _properties(
    topic: str, value_format: str | None, partitions: int | None, columns: Columns
) -> tuple[tuple[str, s.PropertyValue], ...]:
    keys = tuple(column.type for column in columns if column.key)
    found: list[tuple[str, s.PropertyValue]] = [("KAFKA_TOPIC", topic)]
    if partitions is not None:
        found.append(("PARTITIONS", partitions))
    found.append(("VALUE_FORMAT", value_format or ANY_COLUMNS.name))
    if keys:
        found.append(("KEY_FORMAT", internal_format(keys).name))
    return tuple(found)

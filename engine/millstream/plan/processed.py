"""PROCESS in FROM: a processor over the rows of one or more streams, and the changes of tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.functions.function import Catalogue, ProcessorFunction, ProcessorKind
from millstream.model.expressions import ColumnRef, Expression, Literal
from millstream.model.nearest import did_you_mean
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.model.types import BIGINT, INTEGER
from millstream.plan import wordings
from millstream.plan.merging import merged
from millstream.plan.nodes import Process, ProcessedStream, Project, Read
from millstream_parser.statements import AliasedSource

STREAM = "stream"
"""The column of the number of a row's stream, where there are several. Columns of users have the
number of their stream before their names there, so none is called so."""


OFFSET = "ROWOFFSET"


@dataclass(frozen=True, slots=True)
class Processed:
    """A processor over the rows of streams."""

    function: ProcessorFunction
    sources: tuple[Source, ...]

    def made(self) -> Source:
        """The stream of the rows that it makes."""
        columns = (
            Column(column.name, column.type, Role.KEY if column.key else Role.VALUE)
            for column in self.function.output
        )
        schema = Schema(tuple(columns))
        return replace(self.sources[0], kind=SourceKind.STREAM, schema=schema, timestamp=None)

    def node(self, schema: Schema) -> Process:
        """Its rows as a relation with this schema."""
        reads = [
            _read(source, offsets=self.function.kind is not ProcessorKind.BATCHES)
            for source in self.sources
        ]
        given = reads[0] if len(reads) == 1 else merged(_together(reads))
        streams = (
            ProcessedStream(
                r.source.name, r.source.topic, r.schema, r.source.kind is SourceKind.TABLE
            )
            for r in reads
        )
        return Process(given, self.function, schema, tuple(streams))


def processed_by(
    item: AliasedSource, source: Source, catalog: Catalog, functions: Catalogue
) -> Processed | None:
    """The processor through which the rows of a source of FROM pass, if any. Raises StatementError
    for one that is unknown, and for sources that it cannot read."""
    if item.processor is None:
        return None
    function = functions.processor.get(item.processor.upper())
    if function is None:
        raise wordings.PROCESSOR_UNKNOWN(
            processor=item.processor,
            hint=did_you_mean(item.processor.upper(), functions.processor)
            or "Give it to connect(functions=[millstream.processor(…)]) or Database.register.",
        )
    sources = (source, *map(catalog.source, item.others))
    for position, each in enumerate(sources):
        if each.kind is SourceKind.TABLE and function.kind is ProcessorKind.BATCHES:
            raise wordings.PROCESSOR_OVER_TABLE(source=each.name)
        if each.window is not None:
            raise wordings.PROCESSOR_OVER_WINDOWS(source=each.name)
        if each in sources[:position]:
            raise wordings.PROCESSOR_OVER_ONE_TWICE(source=each.name)
    if function.kind is ProcessorKind.BATCHES and item.others:
        raise wordings.BATCHES_OF_SEVERAL(
            processor=function.name, hint="Merge them with UNION ALL into a stream of their own."
        )
    return Processed(function, sources)


def _read(source: Source, *, offsets: bool) -> Read:
    """The stream's own columns, and the offsets of its records."""
    columns = source.schema.columns
    if offsets:
        columns = (*columns, Column(OFFSET, BIGINT))
    names = tuple(column.name for column in columns)
    return Read(source, "", Schema(columns), names, source.kind)


def _together(reads: Sequence[Read]) -> list[Project]:
    """The streams with the columns of all of them."""
    columns = [Column(STREAM, INTEGER)]
    for number, read in enumerate(reads):
        columns += (Column(f"{number}.{c.name}", c.type) for c in read.schema.columns)
    schema = Schema(tuple(columns))
    return [Project(read, _own_columns(reads, number), schema) for number, read in enumerate(reads)]


def _own_columns(reads: Sequence[Read], own: int) -> tuple[Expression, ...]:
    """The values of the rows of one of the streams: NULL for the columns of the others."""
    found: list[Expression] = [Literal(own, INTEGER)]
    for number, read in enumerate(reads):
        for column in read.schema.columns:
            reference = ColumnRef(column.name, column.type)
            found.append(reference if number == own else Literal(None, column.type))
    return tuple(found)

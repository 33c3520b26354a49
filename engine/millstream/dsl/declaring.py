"""The topic of a stream declared as a table, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.catalog.properties import PART_SETTINGS
from millstream.catalog.source import Format, Source
from millstream.dsl.inlining import ALL
from millstream.model.errors import StatementError
from millstream.model.names import folded
from millstream.model.schema import Role, SourceKind
from millstream_parser import parse_type
from millstream_parser import statements as s

_SETTINGS = {setting: name for name, setting in PART_SETTINGS.items()}


def declared(source: Source, query: s.Query, kind: SourceKind, name: str) -> s.CreateSource:
    """CREATE TABLE or STREAM over the topic of a source, with its columns and formats. Raises
    StatementError if the chain has other steps, or a table would have no key."""
    word = kind.value.lower()
    if query != s.Query(ALL, s.AliasedSource(source.name)):
        raise StatementError(
            f"to_{word} is for a topic as it is, and the chain has other steps before it",
            hint="End the query there with .through('a name'), and go on with what it returns.",
        )
    if kind is SourceKind.TABLE and not source.schema.key:
        raise StatementError(
            f"{source.name} has no key, so it has no latest row of each",
            hint="Give it one: .select_key('a column').through('a name').to_table('another name').",
        )
    if kind is SourceKind.TABLE and source.partition_column is not None:
        raise StatementError(
            f"{source.name} has its records in the partitions of {source.partition_column}, and a"
            " table has its rows in those of its key",
            hint="Write it by its key: .select_key('its key').through('a name').",
        )
    key = s.ColumnRole.PRIMARY_KEY if kind is SourceKind.TABLE else s.ColumnRole.KEY
    elements = tuple(
        s.Element(
            column.name,
            parse_type(str(column.type)),
            key if column.role is Role.KEY else s.ColumnRole.VALUE,
        )
        for column in source.schema.columns
        if column.role is not Role.HEADERS
    )
    target = folded(name, f"The name of a {word}")
    return s.CreateSource(kind.value, target, elements, tuple(_properties(source)))


def _properties(source: Source) -> Iterator[tuple[str, s.PropertyValue]]:
    yield "KAFKA_TOPIC", source.topic
    if source.schema.key:
        yield from _of_format("KEY", source.key_format)
    yield from _of_format("VALUE", source.value_format)
    if source.value_format.wrap is not None:
        yield "WRAP_SINGLE_VALUE", source.value_format.wrap
    if source.partition_column is not None:
        yield "PARTITION_COLUMN", f"`{source.partition_column}`"
    if source.timestamp is not None:
        # Names between quotes are folded, too, unless they are quoted there.
        yield "TIMESTAMP", "`{}`".format(source.timestamp.name.replace("`", "``"))
        if source.timestamp.format is not None:
            yield "TIMESTAMP_FORMAT", source.timestamp.format
    if source.window is not None:
        yield "WINDOW_TYPE", source.window.kind.value
        if source.window.size_ms is not None:
            yield "WINDOW_SIZE", f"{source.window.size_ms} MILLISECONDS"


def _of_format(part: str, given: Format) -> Iterator[tuple[str, s.PropertyValue]]:
    yield f"{part}_FORMAT", given.name
    yield from ((f"{part}_{_SETTINGS[name]}", value) for name, value in given.properties.items())

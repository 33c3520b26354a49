"""Rules for the definition of a stream or table, and for its later changes (reference §6, §14)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from millstream.catalog import wordings
from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Format, Source, TimestampColumn
from millstream.model import refusals
from millstream.model.java_time import compile_pattern
from millstream.model.nearest import did_you_mean
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.model.types import (
    BIGINT,
    BYTES,
    HEADERS,
    INTEGER,
    STRING,
    TIMESTAMP,
    SqlType,
    contains_map,
)

PSEUDO_COLUMNS = ("ROWTIME", "ROWPARTITION", "ROWOFFSET")
WINDOW_BOUNDS = ("WINDOWSTART", "WINDOWEND")
RESERVED = (*PSEUDO_COLUMNS, *WINDOW_BOUNDS)
_NAME = re.compile("[A-Za-z0-9_-]+")


def check_source(source: Source) -> None:
    """Refuse a stream or table whose name or columns cannot be used."""
    if not _NAME.fullmatch(source.name):
        raise wordings.ILLEGAL_NAME(source=source.name)
    check_columns(source.schema)
    check_key_types(source.schema.key)
    if source.kind is SourceKind.TABLE and not source.schema.key:
        raise refusals.NO_PRIMARY_KEY()
    if source.window is not None and not source.schema.key:
        raise wordings.WINDOWED_WITHOUT_KEY()
    if source.timestamp is not None:
        check_timestamp(source.timestamp, source.schema)
    check_partition_column(source)


def check_columns(schema: Schema) -> None:
    """Refuse duplicate and reserved names and header columns of the wrong type."""
    seen: set[str] = set()
    for column in schema.columns:
        if column.name in RESERVED:
            raise wordings.RESERVED_NAME(column=column.name)
        if column.name in seen:
            raise wordings.COLUMN_TWICE(column=column.name)
        seen.add(column.name)
    _check_headers(schema.headers)


def _check_headers(headers: tuple[Column, ...]) -> None:
    if any(column.header is None for column in headers[:-1]):
        raise wordings.HEADERS_TWICE()
    keys = [column.header for column in headers]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise wordings.HEADER_TWICE(key=key)
    for column in headers:
        expected: SqlType = HEADERS if column.header is None else BYTES
        marker = "HEADERS" if column.header is None else f"HEADER('{column.header}')"
        if column.type != expected:
            raise wordings.HEADER_TYPE(header=marker, expected=expected, type=column.type)


def check_key_types(key: Iterable[Column]) -> None:
    """Refuse maps in keys: no format writes equal maps as equal bytes."""
    for column in key:
        if contains_map(column.type):
            raise refusals.MAP_IN_KEY(column=column.name, type=column.type)


def check_timestamp(timestamp: TimestampColumn, schema: Schema) -> None:
    """Refuse an event time column that does not exist or cannot be a time."""
    column = schema.find(timestamp.name)
    if column is None or column.role is Role.HEADERS:
        raise refusals.TIMESTAMP_MISSING(column=timestamp.name)
    if column.type == STRING:
        if not timestamp.format:
            raise wordings.TIMESTAMP_FORMAT_MISSING(
                hint="Say how the column's texts are read, as with TIMESTAMP_FORMAT='yyyy-MM-dd'."
            )
        compile_pattern(timestamp.format)
    elif timestamp.format:
        raise wordings.TIMESTAMP_FORMAT_MISPLACED()
    elif column.type not in (BIGINT, TIMESTAMP):
        raise wordings.TIMESTAMP_TYPE(column=column.name)


def check_partition_column(source: Source) -> None:
    """Refuse a partition column that does not exist or is no whole number, or of a table."""
    if source.partition_column is None:
        return
    if source.kind is SourceKind.TABLE:
        raise wordings.PARTITION_COLUMN_OF_TABLE(source=source.name)
    column = source.schema.find(source.partition_column)
    if column is None or column.role is Role.HEADERS:
        listed = [each.name for each in source.schema.columns if each.role is not Role.HEADERS]
        raise wordings.PARTITION_COLUMN_MISSING(
            column=source.partition_column,
            source=source.name,
            hint=did_you_mean(
                source.partition_column, listed, f"The columns are {', '.join(listed)}."
            ),
        )
    if column.type not in (INTEGER, BIGINT):
        raise wordings.PARTITION_COLUMN_TYPE(column=column.name, type=column.type)


def check_replace(old: Source, new: Source, catalog: Catalog) -> None:
    """Refuse CREATE OR REPLACE where records written so far would not fit the new definition."""
    noun = new.kind.value.lower()
    if old.read_only or new.read_only:
        raise wordings.REPLACED_READ_ONLY(noun=noun, name=new.name)
    if len(catalog.writers(new.name)) > 1:
        raise wordings.REPLACED_SHARED(noun=noun, name=new.name)
    if new.query_id is None and catalog.writers(new.name):
        raise wordings.REPLACED_WRITTEN(
            noun=noun,
            name=new.name,
            query=catalog.writers(new.name)[0].id,
            hint=f"Use CREATE OR REPLACE {new.kind.value} … AS SELECT, or terminate the query.",
        )
    changes = {
        "type": (old.kind.value, new.kind.value),
        "topic": (old.topic, new.topic),
        "key format": (_format_text(old.key_format), _format_text(new.key_format)),
        "value format": (_format_text(old.value_format), _format_text(new.value_format)),
        "window": (_window_text(old), _window_text(new)),
        "timestamp column": (_timestamp_text(old), _timestamp_text(new)),
        "partition column": (old.partition_column, new.partition_column),
    }
    for what, (before, after) in changes.items():
        if before != after:
            raise wordings.REPLACED_DIFFERENT(
                noun=noun,
                name=new.name,
                what=what,
                before=before,
                after=after,
                hint="Drop it and create it again, or create another one.",
            )
    _check_columns_kept(old.schema, new.schema, noun, new.name)


def _check_columns_kept(old: Schema, new: Schema, noun: str, name: str) -> None:
    """Refuse any change except value columns added at the end: each column keeps its name, its type
    and its position among the keys, the values or the headers."""
    parts = ((old.key, new.key), (old.value, new.value), (old.headers, new.headers))
    moved = {
        column
        for before, after in parts
        for place, column in enumerate(before)
        if column not in after[place : place + 1]
    }
    if moved or len(new.key) > len(old.key) or len(new.headers) > len(old.headers):
        gone = [column for column in old.columns if column in moved] or list(old.columns)
        raise refusals.COLUMNS_CHANGED(
            noun=noun,
            name=name,
            columns=", ".join(str(Schema((column,))) for column in gone),
            detail=f"Current schema: {old}\nNew schema: {new}",
            hint="Value columns may be added at the end; no other column may change.",
        )


def _format_text(item: Format) -> str:
    settings = dict(item.properties)
    if item.wrap is not None:
        settings["wrap"] = str(item.wrap).lower()
    listed = ", ".join(f"{name} {value}" for name, value in sorted(settings.items()))
    return f"{item.name} ({listed})" if listed else item.name


def _window_text(source: Source) -> str:
    if source.window is None:
        return "none"
    size = source.window.size_ms
    return source.window.kind.value + ("" if size is None else f" of {size} ms")


def _timestamp_text(source: Source) -> str:
    if source.timestamp is None:
        return "none"
    return " ".join(filter(None, (source.timestamp.name, source.timestamp.format)))


def check_alter(source: Source, kind: SourceKind, added: tuple[Column, ...]) -> Source:
    """The source with value columns added at its end; raises StatementError where that is
    impossible."""
    noun = kind.value.lower()
    if source.kind is not kind:
        raise refusals.WRONG_KIND(
            kind=source.kind.value,
            statement=f"ALTER {kind.value}",
            hint=f"ALTER {source.kind.value} {source.name} …",
        )
    if source.read_only:
        raise wordings.ALTERED_READ_ONLY(noun=noun, source=source.name)
    if source.query_id is not None:
        raise wordings.ALTERED_WRITTEN(
            source=source.name,
            query_id=source.query_id,
            hint=f"Use CREATE OR REPLACE {kind.value} … AS SELECT.",
        )
    for column in added:
        if source.schema.find(column.name) is not None:
            raise wordings.COLUMN_EXISTS(column=column.name)
    schema = Schema.of(source.schema.columns + added)
    check_columns(schema)
    return Source(
        name=source.name,
        kind=source.kind,
        schema=schema,
        topic=source.topic,
        key_format=source.key_format,
        value_format=source.value_format,
        window=source.window,
        timestamp=source.timestamp,
        statement=source.statement,
    )


@dataclass(frozen=True, slots=True)
class Drop:
    """The effects of a DROP: the catalog afterwards, queries to terminate, and a topic to
    delete."""

    catalog: Catalog
    terminate: tuple[str, ...] = ()
    delete_topic: str | None = None


def drop_source(
    catalog: Catalog, kind: SourceKind, name: str, *, if_exists: bool, delete_topic: bool
) -> Drop:
    """Drop a stream or table. Its own query ends with it; any other user of it prevents the
    drop."""
    source = catalog.sources.get(name)
    if source is None and name in catalog.system:
        raise wordings.DROPPED_OWN(name=name)
    if source is None:
        if if_exists:
            return Drop(catalog)
        raise wordings.DROPPED_MISSING(
            titled=kind.value.capitalize(), name=name, hint=catalog.spelling_hint(name)
        )
    if source.kind is not kind:
        raise refusals.WRONG_KIND(
            kind=source.kind.value,
            statement=f"DROP {kind.value}",
            hint=f"DROP {source.kind.value} {source.name};",
        )
    own = tuple(
        query.id
        for query in catalog.queries.values()
        if query.id == source.query_id
        or (query.kind.value == "SOURCE_TABLE" and name in query.sources)
    )
    _refuse_while_used(catalog, name, own)
    if delete_topic:
        _refuse_topic_deletion(catalog, source)
    after = catalog
    for query_id in own:
        after = after.without_query(query_id)
    return Drop(after.without_source(name), own, source.topic if delete_topic else None)


def _refuse_while_used(catalog: Catalog, name: str, own: tuple[str, ...]) -> None:
    readers = [query.id for query in catalog.readers(name) if query.id not in own]
    writers = [query.id for query in catalog.writers(name) if query.id not in own]
    if readers or writers:
        raise wordings.DROPPED_READ(
            name=name, readers=", ".join(sorted(readers)), writers=", ".join(sorted(writers))
        )
    made = [other for other in catalog.made_from(name) if other != name]
    if made:
        raise wordings.DROPPED_NEEDED(name=name, made=", ".join(made))


def _refuse_topic_deletion(catalog: Catalog, source: Source) -> None:
    if source.read_only:
        raise wordings.TOPIC_OF_READ_ONLY(source=source.name)
    others = sorted(s.name for s in catalog.over_topic(source.topic) if s.name != source.name)
    if others:
        raise wordings.TOPIC_SHARED(topic=source.topic, others=", ".join(others))

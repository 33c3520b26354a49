"""What a stream or table may look like, and what may become of it later (reference §6, §14)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Format, Source, TimestampColumn
from millstream.model import refusals
from millstream.model.errors import ConflictError, StatementError
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.model.types import (
    BIGINT,
    BYTES,
    HEADERS,
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
        raise StatementError(
            "Illegal argument: Identifier names may only contain alphanumeric values, '_' or '-'. "
            f"Got: '{source.name}'"
        )
    check_columns(source.schema)
    check_key_types(source.schema.key)
    if source.kind is SourceKind.TABLE and not source.schema.key:
        raise refusals.NO_PRIMARY_KEY()
    if source.window is not None and not source.schema.key:
        raise StatementError("Windowed sources require a key column.")
    if source.timestamp is not None:
        check_timestamp(source.timestamp, source.schema)


def check_columns(schema: Schema) -> None:
    """Refuse duplicate and reserved names and header columns of the wrong type."""
    seen: set[str] = set()
    for column in schema.columns:
        if column.name in RESERVED:
            raise StatementError(
                f"'{column.name}' is a reserved column name. "
                "You cannot use it as a name for a column."
            )
        if column.name in seen:
            raise StatementError(f"Duplicate column names: {column.name}")
        seen.add(column.name)
    _check_headers(schema.headers)


def _check_headers(headers: tuple[Column, ...]) -> None:
    if any(column.header is None for column in headers[:-1]):
        raise StatementError("Schema already contains a HEADERS column.")
    keys = [column.header for column in headers]
    if len(set(keys)) < len(keys):
        raise StatementError("Schema already contains a HEADER column with the same key.")
    for column in headers:
        expected: SqlType = HEADERS if column.header is None else BYTES
        marker = "HEADERS" if column.header is None else f"HEADER('{column.header}')"
        if column.type != expected:
            raise StatementError(
                f"Invalid type for {marker} column: expected {expected}, got {column.type}"
            )


def check_key_types(key: Iterable[Column]) -> None:
    """Refuse maps in keys: no format writes one the same way twice."""
    for column in key:
        if contains_map(column.type):
            raise refusals.MAP_IN_KEY(column=column.name, type=column.type)


def check_timestamp(timestamp: TimestampColumn, schema: Schema) -> None:
    """Refuse an event time column that does not exist or cannot be a time."""
    column = schema.find(timestamp.name)
    if column is None or column.role is Role.HEADERS:
        raise refusals.TIMESTAMP_MISSING(column=timestamp.name)
    fits = column.type == STRING if timestamp.format else column.type in (BIGINT, TIMESTAMP)
    if not fits:
        raise StatementError(
            f"Timestamp column, `{column.name}`, should be LONG(INT64), TIMESTAMP, "
            "or a String with a timestamp_format specified"
        )


def check_replace(old: Source, new: Source, catalog: Catalog) -> None:
    """Refuse CREATE OR REPLACE where records written so far would not fit the new definition."""
    noun = new.kind.value.lower()
    refused = f"Cannot add {noun} '{new.name}': "
    if old.read_only or new.read_only:
        raise StatementError(f"{refused}CREATE OR REPLACE is not supported on source {noun}s.")
    if len(catalog.writers(new.name)) > 1:
        raise StatementError(f"{refused}several queries write into it.")
    if new.query_id is None and catalog.writers(new.name):
        raise StatementError(
            f"{refused}{catalog.writers(new.name)[0].id} writes into it.",
            hint=f"Use CREATE OR REPLACE {new.kind.value} … AS SELECT, or terminate the query.",
        )
    changes = {
        "kind": (old.kind.value, new.kind.value),
        "topic": (old.topic, new.topic),
        "key format": (_format_text(old.key_format), _format_text(new.key_format)),
        "value format": (_format_text(old.value_format), _format_text(new.value_format)),
        "window": (_window_text(old), _window_text(new)),
        "timestamp column": (_timestamp_text(old), _timestamp_text(new)),
    }
    for what, (before, after) in changes.items():
        if before != after:
            raise StatementError(
                f"{refused}it cannot be upgraded, as the {what} would change.",
                detail=f"Current: {before}. New: {after}.",
                hint="Drop it and create it again, or create another one.",
            )
    _check_columns_kept(old.schema, new.schema, refused)


def _check_columns_kept(old: Schema, new: Schema, refused: str) -> None:
    kept = new.value[: len(old.value)]
    if old.key != new.key or kept != old.value or old.headers != new.headers:
        there = set(new.columns)
        gone = [column for column in old.columns if column not in there] or list(old.columns)
        raise refusals.COLUMNS_CHANGED(
            refused=refused,
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
    """The source with value columns added at its end; StatementError where that cannot be."""
    noun = kind.value.lower()
    if source.kind is not kind:
        raise refusals.WRONG_KIND(kind=source.kind.value, statement=f"ALTER {kind.value}")
    if source.read_only:
        raise StatementError(
            f"Cannot alter {noun} '{source.name}': ALTER operations are not supported on "
            f"source {noun}s."
        )
    if source.query_id is not None:
        raise StatementError(
            f"ALTER command is not supported for CREATE ... AS statements: '{source.name}' is "
            f"written by {source.query_id}.",
            hint=f"Use CREATE OR REPLACE {kind.value} … AS SELECT.",
        )
    for column in added:
        if source.schema.find(column.name) is not None:
            raise StatementError(f"Cannot add column `{column.name}` to schema. It already exists.")
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
    """What a DROP does: the catalog afterwards, queries to end, and a topic to delete."""

    catalog: Catalog
    terminate: tuple[str, ...] = ()
    delete_topic: str | None = None


def drop_source(
    catalog: Catalog, kind: SourceKind, name: str, *, if_exists: bool, delete_topic: bool
) -> Drop:
    """Drop a stream or table: its own query ends with it, any other user of it is in the way."""
    source = catalog.sources.get(name)
    if source is None and name in catalog.system:
        raise StatementError(f"Cannot drop {name}: it is part of the engine.")
    if source is None:
        if if_exists:
            return Drop(catalog)
        raise StatementError(
            f"{kind.value.capitalize()} {name} does not exist.", hint=catalog.spelling_hint(name)
        )
    if source.kind is not kind:
        raise refusals.WRONG_KIND(kind=source.kind.value, statement=f"DROP {kind.value}")
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
        raise ConflictError(
            f"Cannot drop {name}.\n"
            f"The following queries read from this source: [{', '.join(sorted(readers))}].\n"
            f"The following queries write into this source: [{', '.join(sorted(writers))}].\n"
            f"You need to terminate them before dropping {name}."
        )
    made = [other for other in catalog.made_from(name) if other != name]
    if made:
        raise ConflictError(
            f"Cannot drop {name}.\n"
            f"The following streams and/or tables read from this source: [{', '.join(made)}].\n"
            f"You need to drop them before dropping {name}."
        )


def _refuse_topic_deletion(catalog: Catalog, source: Source) -> None:
    if source.read_only:
        raise StatementError(f"Cannot delete topic for read-only source: {source.name}")
    others = sorted(s.name for s in catalog.over_topic(source.topic) if s.name != source.name)
    if others:
        raise ConflictError(
            f"Refusing to delete topic {source.topic}: it is used by {', '.join(others)} too."
        )

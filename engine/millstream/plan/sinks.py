"""The sink of a query: a new stream or table, an existing stream, or a client."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from millstream.catalog.catalog import Catalog
from millstream.catalog.formats import DEFAULT_KEY, NO_COLUMNS, SCHEMA_ID
from millstream.catalog.properties import (
    DEFAULT_KEY_FORMAT,
    DEFAULT_VALUE_FORMAT,
    Form,
    Properties,
    check_retention,
    default_format,
    make_format,
    read_properties,
    wrapping,
)
from millstream.catalog.rules import (
    WINDOW_BOUNDS,
    check_key_types,
    check_partition_column,
    check_timestamp,
)
from millstream.catalog.source import Format, Source, TimestampColumn
from millstream.model import refusals
from millstream.model.expressions import Cast
from millstream.model.schema import Schema, SourceKind, WindowedKey
from millstream.plan import wordings
from millstream.plan.assignable import assignable
from millstream.plan.nodes import Project
from millstream_parser.statements import Properties as WithClause
from millstream_parser.statements import WindowClause

TOPIC_PREFIX = "ksql.output.topic.name.prefix"


@dataclass(frozen=True, slots=True)
class NewSource:
    """CREATE … AS SELECT: `kind` STREAM or TABLE as written, and its WITH clause."""

    kind: str
    name: str
    properties: WithClause = ()
    statement: str = ""
    query_id: str | None = None


@dataclass(frozen=True, slots=True)
class ExistingStream:
    """INSERT INTO … SELECT."""

    name: str
    properties: WithClause = ()


@dataclass(frozen=True, slots=True)
class Client:
    """A push query."""


Target = NewSource | ExistingStream | Client


@dataclass(frozen=True, slots=True)
class OutputTopic:
    """The topic a query writes to. Fields that are None are taken from the topic `like`."""

    name: str
    like: str
    partitions: int | None = None
    replicas: int | None = None
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Sink:
    """A new stream or table with its topic."""

    source: Source
    topic: OutputTopic


def check_kind(target: NewSource, kind: SourceKind) -> None:
    """Refuse CREATE STREAM over a table, and the reverse."""
    if target.kind != kind.value:
        raise wordings.RESULT_KIND(kind=kind.value)


def read_sink_properties(target: NewSource) -> Properties:
    """The WITH clause of CREATE … AS SELECT."""
    return read_properties(target.properties, Form.CREATE_AS)


def sink_topic_name(target: NewSource, settings: Mapping[str, str]) -> str:
    """The topic that CREATE … AS SELECT writes to."""
    return _topic_name(target, read_sink_properties(target), settings)


def _topic_name(target: NewSource, given: Properties, settings: Mapping[str, str]) -> str:
    return given.topic or settings.get(TOPIC_PREFIX, "") + target.name


def check_timestamp_selected(target: NewSource, names: Collection[str]) -> None:
    """Refuse an event time column that the query does not select."""
    timestamp = read_sink_properties(target).timestamp
    if timestamp is not None and timestamp not in names:
        raise refusals.TIMESTAMP_MISSING(column=timestamp)


def new_sink(
    target: NewSource,
    result: Schema,
    kind: SourceKind,
    window: WindowedKey | None,
    left: Source,
    settings: Mapping[str, str],
) -> Sink:
    """The stream or table that CREATE … AS SELECT creates; formats come from the left source."""
    check_kind(target, kind)
    given = read_sink_properties(target)
    schema = Schema(tuple(c for c in result.columns if c not in _bounds(result)))
    check_key_types(schema.key)
    key_format = _key_format(given, schema, left.key_format, settings)
    value_format = _value_format(given, schema, left.value_format, settings)
    timestamp = None
    if given.timestamp is not None:
        timestamp = TimestampColumn(given.timestamp, given.timestamp_format)
        check_timestamp(timestamp, schema)
    topic = _topic_name(target, given, settings)
    check_retention(given, kind, window)
    source = Source(
        name=target.name,
        kind=kind,
        schema=schema,
        topic=topic,
        key_format=key_format,
        value_format=value_format,
        window=window,
        timestamp=timestamp,
        partition_column=given.partition_column,
        statement=target.statement,
        query_id=target.query_id,
    )
    check_partition_column(source)
    partitions = given.partitions or _setting(settings, "ksql.sink.partitions")
    replicas = given.replicas or _setting(settings, "ksql.sink.replicas")
    return Sink(source, OutputTopic(topic, left.topic, partitions, replicas, given.retention_ms))


def kept_with_windows(topic: OutputTopic, window: WindowClause | None) -> OutputTopic:
    """A topic whose records are kept at least as long as the statement says of the windows."""
    if window is None or window.retention is None:
        return topic
    kept_ms = max(topic.retention_ms or 0, window.retention.milliseconds)
    return replace(topic, retention_ms=kept_ms)


def _bounds(schema: Schema) -> tuple[object, ...]:
    return tuple(column for column in schema.key if column.name in WINDOW_BOUNDS)


def _setting(settings: Mapping[str, str], name: str) -> int | None:
    text = settings.get(name)
    return int(text) if text else None


def _key_format(
    given: Properties, schema: Schema, inherited: Format, settings: Mapping[str, str]
) -> Format:
    if not schema.key:
        if given.key_format not in (None, NO_COLUMNS.name):
            raise wordings.KEY_FORMAT_WITHOUT_KEY(
                hint="Leave KEY_FORMAT out, or use VALUE_FORMAT instead of FORMAT."
            )
        return NO_COLUMNS
    if given.key_format is not None:
        return _with_inherited(given.key_format, given.key_settings, inherited)
    if inherited.name == NO_COLUMNS.name:
        name = default_format(settings, DEFAULT_KEY_FORMAT) or DEFAULT_KEY
        return make_format(name, given.key_settings)
    return _with_inherited(inherited.name, given.key_settings, inherited)


def _value_format(
    given: Properties, schema: Schema, inherited: Format, settings: Mapping[str, str]
) -> Format:
    name = given.value_format or inherited.name
    if name == NO_COLUMNS.name:
        name = default_format(settings, DEFAULT_VALUE_FORMAT) or name
    wrap = wrapping(given.wrap, settings, name, len(schema.value))
    return _with_inherited(name, given.value_settings, inherited, wrap)


def _with_inherited(
    name: str, settings: Mapping[str, str], inherited: Format, wrap: bool | None = None
) -> Format:
    kept = dict(inherited.properties) if inherited.name == name else {}
    kept.pop(SCHEMA_ID, None)
    return make_format(name, {**kept, **settings}, wrap)


def existing_sink(target: ExistingStream, catalog: Catalog) -> Source:
    """The stream that INSERT INTO … SELECT writes into; raises StatementError where that is
    impossible."""
    read_properties(target.properties, Form.INSERT)
    sink = catalog.find(target.name)
    if sink is None:
        raise wordings.SINK_MISSING(name=target.name, hint=catalog.spelling_hint(target.name))
    if sink.kind is SourceKind.TABLE:
        raise wordings.SINK_IS_TABLE(sink=sink.name)
    if sink.read_only:
        raise wordings.SINK_READ_ONLY(sink=sink.name)
    if sink.schema.headers:
        raise wordings.SINK_WITH_HEADERS(sink=sink.name)
    return sink


def fitted(node: Project, sink: Source, kind: SourceKind, window: WindowedKey | None) -> Project:
    """The projection with its columns converted to those of an existing stream."""
    if kind is SourceKind.TABLE:
        raise wordings.SINK_KIND(sink=sink.name, kind=sink.kind.value, result=kind.value)
    if window != sink.window:
        raise wordings.SINK_WINDOW(sink=sink.name, detail=f"Result: {window}. Sink: {sink.window}.")
    ours = tuple(c for c in node.schema.columns if c not in _bounds(node.schema))
    theirs = sink.schema.columns
    same_shape = [(c.name, c.role) for c in ours] == [(c.name, c.role) for c in theirs]
    if not same_shape or not all(
        assignable(a.type, b.type) for a, b in zip(ours, theirs, strict=True)
    ):
        raise wordings.SINK_SCHEMA(ours=Schema(ours), schema=sink.schema)
    types = {column.name: column for column in theirs}
    columns = tuple(types.get(column.name, column) for column in node.schema.columns)
    expressions = tuple(
        expression
        if expression.type == column.type
        else Cast(expression, column.type, implicit=True)
        for expression, column in zip(node.expressions, columns, strict=True)
    )
    return Project(node.input, expressions, Schema(columns))

"""SHOW, DESCRIBE and the other statements that only look (reference: statements, section 17)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from millstream.catalog.catalog import QueryRecord
from millstream.catalog.source import Source
from millstream.functions.function import AggregateFunction, ScalarFunction, TableFunction
from millstream.model.errors import StatementError, UnavailableError
from millstream.model.schema import Column, Role, SourceKind
from millstream.model.settings import PROPERTIES
from millstream.service.engine import Engine
from millstream.service.results import Rows
from millstream.service.session import Session
from millstream_parser.statements import Describe, Listing, Show

INTERNAL_PREFIX = "_millstream_"


def rows(columns: Sequence[str], values: Iterable[Sequence[Any]], title: str = "") -> Rows:
    """A table of text."""
    listed = [[None if cell is None else str(cell) for cell in row] for row in values]
    arrays = [
        pa.array([row[index] for row in listed], pa.string()) for index in range(len(columns))
    ]
    return Rows(pa.table(arrays, names=list(columns)), title)


def show(statement: Show, engine: Engine, session: Session) -> Rows:
    """SHOW and LIST."""
    match statement.listing:
        case Listing.STREAMS:
            return _sources(engine, SourceKind.STREAM)
        case Listing.TABLES:
            return _sources(engine, SourceKind.TABLE)
        case Listing.TOPICS:
            return _topics(engine, statement.all)
        case Listing.QUERIES:
            return _queries(engine)
        case Listing.FUNCTIONS:
            return _functions(engine)
        case Listing.PROPERTIES:
            return _properties(session)
        case Listing.TYPES:
            types = sorted(engine.catalog.types.items())
            return rows(("Type Name", "Schema"), types)
        case Listing.VARIABLES:
            return rows(("Variable Name", "Value"), sorted(session.variables.items()))
        case _:
            raise UnavailableError(
                f"SHOW {statement.listing.value} needs Kafka Connect, which is not configured"
            )


def describe(statement: Describe, engine: Engine) -> Rows:
    """DESCRIBE of a source, of all sources of a kind, or of a function."""
    match statement.what:
        case "SOURCE":
            source = engine.catalog.source(statement.name)
            return _extended(source, engine) if statement.extended else _fields(source)
        case "STREAMS" | "TABLES":
            kind = SourceKind.STREAM if statement.what == "STREAMS" else SourceKind.TABLE
            found = [item for item in engine.catalog.sources.values() if item.kind is kind]
            listed = [(item.name, *row) for item in found for row in _field_rows(item)]
            return rows(("Name", "Field", "Type"), listed)
        case "FUNCTION":
            return _function(statement.name, engine)
        case _:
            raise UnavailableError(
                "DESCRIBE CONNECTOR needs Kafka Connect, which is not configured"
            )


def _sources(engine: Engine, kind: SourceKind) -> Rows:
    noun = kind.value.capitalize()
    return rows(
        (f"{noun} Name", "Kafka Topic", "Key Format", "Value Format", "Windowed"),
        [
            (
                source.name,
                source.topic,
                source.key_format.name,
                source.value_format.name,
                "true" if source.window else "false",
            )
            for source in sorted(engine.catalog.sources.values(), key=lambda item: item.name)
            if source.kind is kind
        ],
    )


def _topics(engine: Engine, everything: bool) -> Rows:
    return rows(
        ("Kafka Topic", "Partitions", "Partition Replicas"),
        [
            (topic.name, topic.partitions, topic.replicas)
            for topic in engine.log.topics()
            if everything or not topic.name.startswith(INTERNAL_PREFIX)
        ],
    )


def _queries(engine: Engine) -> Rows:
    states = {status.query_id: status for status in engine.statuses()}
    persistent: list[tuple[str | None, ...]] = [
        (
            query.id,
            "PERSISTENT",
            _state(states, query, engine),
            query.sink,
            engine.catalog.sources[query.sink].topic if query.sink else None,
            query.statement,
        )
        for query in engine.catalog.queries.values()
    ]
    push: list[tuple[str | None, ...]] = [
        (status.query_id, "PUSH", status.state.value, None, None, None)
        for status in states.values()
        if status.transient
    ]
    columns = ("Query ID", "Query Type", "Status", "Sink Name", "Sink Kafka Topic", "Query String")
    return rows(columns, persistent + push)


def _state(states: dict[str, Any], query: QueryRecord, engine: Engine) -> str:
    status = states.get(query.id)
    if status is None:
        return f"ERROR: {engine.failed.get(query.id, 'it is not running')}"
    return f"{status.state.value}: {status.error}" if status.error else str(status.state.value)


def _functions(engine: Engine) -> Rows:
    catalogue = engine.functions
    listed = [(name, item.category) for name, item in catalogue.scalar.items()]
    listed += [(name, "AGGREGATE") for name in catalogue.aggregate]
    listed += [(name, "TABLE") for name in catalogue.table]
    return rows(("Function Name", "Category"), sorted(listed))


def _properties(session: Session) -> Rows:
    return rows(
        ("Property", "Default override", "Effective Value", "Description"),
        [
            (
                item.name,
                "SESSION" if item.name in session.properties else "",
                session.property(item.name),
                item.description,
            )
            for item in PROPERTIES
        ],
    )


def _fields(source: Source) -> Rows:
    return rows(("Field", "Type"), _field_rows(source), f"Name: {source.name}")


def _field_rows(source: Source) -> list[tuple[str, str]]:
    columns = source.schema.columns
    return [(column.name, f"{column.type}{_mark(column, source)}") for column in columns]


def _mark(column: Column, source: Source) -> str:
    match column.role:
        case Role.KEY:
            window = f" (Window type: {source.window.kind.value})" if source.window else ""
            return f"{'  (primary key)' if source.kind is SourceKind.TABLE else '  (key)'}{window}"
        case Role.HEADERS:
            return f"  (header('{column.header}'))" if column.header else "  (headers)"
        case Role.VALUE:
            return ""


def _extended(source: Source, engine: Engine) -> Rows:
    topic = engine.log.topic(source.topic)
    partitions = topic.partitions if topic else 0
    readers = engine.catalog.readers(source.name)
    writers = engine.catalog.writers(source.name)
    ends = [engine.log.end_offset(source.topic, part) for part in range(partitions)]
    timestamp = source.timestamp.name if source.timestamp else "Not set - using <ROWTIME>"
    facts: list[tuple[str, str]] = [
        ("Name", source.name),
        ("Type", source.kind.value),
        ("Timestamp field", timestamp),
        ("Key format", source.key_format.name),
        ("Value format", source.value_format.name),
        ("Kafka topic", f"{source.topic} (partitions: {partitions})"),
        ("Statement", source.statement),
        ("Queries that read from it", ", ".join(query.id for query in readers)),
        ("Queries that write into it", ", ".join(query.id for query in writers)),
        ("End offsets", ", ".join(map(str, ends))),
    ]
    facts += [
        (f"Rows not used by {query.id}", str(engine.processing_log.count(query.id)))
        for query in readers
        if engine.processing_log.count(query.id)
    ]
    facts += [(f"Field {name}", text) for name, text in _field_rows(source)]
    return rows(("Property", "Value"), facts, f"Name: {source.name}")


def _function(name: str, engine: Engine) -> Rows:
    catalogue = engine.functions
    upper = name.upper()
    found = (
        catalogue.scalar.get(upper) or catalogue.aggregate.get(upper) or catalogue.table.get(upper)
    )
    match found:
        case ScalarFunction():
            kind, signatures = "SCALAR", [variant.signature for variant in found.variants]
        case AggregateFunction():
            kind, signatures = "AGGREGATE", [variant.signature for variant in found.variants]
        case TableFunction():
            kind, signatures = "TABLE", [text.strip() for text in found.signature.split(";")]
        case None:
            raise StatementError(
                f"Can't find any functions with the name '{name}'",
                hint="SHOW FUNCTIONS lists all of them.",
            )
    facts = [("Name", found.name), ("Type", kind), ("Overview", found.description)]
    facts += [("Variation", f"{found.name}({signature})") for signature in signatures]
    facts += [("Example", f"{example.expression} = {example.result}") for example in found.examples]
    return rows(("Property", "Value"), facts, f"Name: {found.name}")

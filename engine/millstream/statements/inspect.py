"""SHOW, LIST and DESCRIBE, which change nothing (reference: statements, section 17)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, assert_never

import pyarrow as pa

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.functions.function import Catalogue
from millstream.log.usage import USAGE_COLUMNS, TopicUsage
from millstream.metrics.figures import PUSH, EngineMetrics
from millstream.metrics.metrics import Metrics
from millstream.model.iso_times import iso_timestamp
from millstream.model.nearest import did_you_mean
from millstream.model.properties import PROPERTIES
from millstream.model.schema import SourceKind
from millstream.plan import wordings as plan_wordings
from millstream.push.push_queries import PushQueries
from millstream.queries.registry import QueryRegistry
from millstream.queries.statuses import statuses
from millstream.query.results import Rows
from millstream.query.session import Session
from millstream.statements import wordings
from millstream.statements.described import (
    field_rows,
    push_facts,
    query_facts,
    source_facts,
    status_text,
)
from millstream_parser.statements import Describe, Listing, Show


def rows(columns: Sequence[str], values: Iterable[Sequence[Any]], title: str = "") -> Rows:
    """A result whose cells are text or NULL."""
    listed = [[None if cell is None else str(cell) for cell in row] for row in values]
    arrays = [
        pa.array([row[index] for row in listed], pa.string()) for index in range(len(columns))
    ]
    return Rows(pa.table(arrays, names=list(columns)), title)


def show(statement: Show, push_queries: PushQueries, metrics: Metrics, session: Session) -> Rows:
    """Execute SHOW or LIST."""
    registry = push_queries.registry
    match statement.listing:
        case Listing.STREAMS:
            return _sources(registry, metrics, SourceKind.STREAM, statement.extended)
        case Listing.TABLES:
            return _sources(registry, metrics, SourceKind.TABLE, statement.extended)
        case Listing.TOPICS:
            return _topics(registry, statement.all, statement.extended)
        case Listing.QUERIES:
            return (
                _extended_queries(push_queries, metrics.now())
                if statement.extended
                else _queries(registry.catalog, metrics.now())
            )
        case Listing.TERMINATED_QUERIES:
            ended = registry.catalog.terminated
            return rows(
                ("Query ID", "Ended At", "Sink", "Query String"),
                [(q.record.id, q.ended_at, q.record.sink, q.record.statement) for q in ended],
            )
        case Listing.FUNCTIONS:
            return _functions(registry.functions)
        case Listing.PROPERTIES:
            return _properties(session)
        case Listing.TYPES:
            types = sorted(registry.catalog.types.items())
            return rows(("Type Name", "Schema"), types)
        case Listing.VARIABLES:
            return rows(("Variable Name", "Value"), sorted(session.variables.items()))
        case (
            Listing.CONNECTORS
            | Listing.SOURCE_CONNECTORS
            | Listing.SINK_CONNECTORS
            | Listing.CONNECTOR_PLUGINS
        ):
            raise TypeError(f"{statement.listing} is executed elsewhere")
    assert_never(statement.listing)


def existing_source(name: str, catalog: Catalog) -> Source:
    """The source that DESCRIBE names; raises StatementError if it does not exist."""
    source = catalog.find(name)
    if source is None:
        raise wordings.DESCRIBED_MISSING(name=name, hint=catalog.spelling_hint(name))
    return source


def describe(statement: Describe, registry: QueryRegistry, metrics: Metrics) -> Rows:
    """Execute DESCRIBE of a source, of all sources of a kind, or of a function."""
    match statement.what:
        case "SOURCE":
            source = existing_source(statement.name, registry.catalog)
            title = f"Name: {source.name}"
            if statement.extended:
                return rows(
                    ("Property", "Value"), source_facts(source, registry, metrics.now()), title
                )
            return rows(("Field", "Type"), field_rows(source), title)
        case "STREAMS" | "TABLES":
            kind = SourceKind.STREAM if statement.what == "STREAMS" else SourceKind.TABLE
            if statement.extended:
                return _extended_sources(registry, metrics.now(), kind)
            found = _sources_of_kind(registry.catalog, kind)
            listed = [(item.name, *row) for item in found for row in field_rows(item)]
            return rows(("Name", "Field", "Type"), listed)
        case "FUNCTION":
            return _function(statement.name, registry.functions)
        case _:
            raise TypeError(f"DESCRIBE {statement.what} is executed elsewhere")


def _sources_of_kind(catalog: Catalog, kind: SourceKind) -> list[Source]:
    found = [source for source in catalog.every().values() if source.kind is kind]
    return sorted(found, key=lambda source: source.name)


def _extended_sources(registry: QueryRegistry, metrics: EngineMetrics, kind: SourceKind) -> Rows:
    facts = [
        (source.name, *fact)
        for source in _sources_of_kind(registry.catalog, kind)
        for fact in source_facts(source, registry, metrics)
    ]
    return rows(("Name", "Property", "Value"), facts)


def _sources(registry: QueryRegistry, metrics: Metrics, kind: SourceKind, extended: bool) -> Rows:
    if extended:
        return _extended_sources(registry, metrics.now(), kind)
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
            for source in _sources_of_kind(registry.catalog, kind)
        ],
    )


def _topics(registry: QueryRegistry, include_internal: bool, extended: bool) -> Rows:
    columns: tuple[str, ...] = ("Kafka Topic", "Partitions", "Partition Replicas")
    is_internal = registry.settings.is_internal
    shown = [
        topic for topic in registry.log.topics() if include_internal or not is_internal(topic.name)
    ]
    listed: list[tuple[Any, ...]] = [
        (topic.name, topic.partitions, topic.replicas) for topic in shown
    ]
    if include_internal:
        columns = (*columns, "Internal")
        listed = [(*row, "true" if is_internal(row[0]) else "false") for row in listed]
    if not extended:
        return rows(columns, listed)
    running = statuses(registry)
    consumers = Counter(topic for status in running for topic, _ in status.positions)
    groups = Counter(
        topic for status in running for topic in {topic for topic, _ in status.positions}
    )
    usage = registry.log.usage([topic.name for topic in shown])
    return rows(
        (*columns, "Consumers", "ConsumerGroups", *USAGE_COLUMNS),
        [
            (*row, consumers[row[0]], groups[row[0]], *_usage_cells(usage.get(row[0])))
            for row in listed
        ],
    )


def _usage_cells(usage: TopicUsage | None) -> tuple[str | None, ...]:
    if usage is None:
        return (None,) * len(USAGE_COLUMNS)
    oldest = None if usage.oldest is None else iso_timestamp(usage.oldest * 1000)
    numbers = (usage.records, usage.bytes, usage.uncompacted)
    records, size, uncompacted = (None if each is None else str(each) for each in numbers)
    starts, ends = (", ".join(map(str, each)) for each in (usage.starts, usage.ends))
    return starts, ends, records, size, oldest, uncompacted


def _queries(catalog: Catalog, metrics: EngineMetrics) -> Rows:
    metrics_by_id = {query.query_id: query for query in metrics.queries}
    persistent: list[tuple[str | None, ...]] = [
        (
            query.id,
            "PERSISTENT",
            status_text(metrics_by_id.get(query.id)),
            query.sink,
            catalog.sources[query.sink].topic if query.sink else None,
            query.statement,
        )
        for query in catalog.queries.values()
    ]
    push: list[tuple[str | None, ...]] = [
        (query.query_id, query.type, query.state, None, None, None)
        for query in metrics_by_id.values()
        if query.type == PUSH
    ]
    columns = ("Query ID", "Query Type", "Status", "Sink Name", "Sink Kafka Topic", "Query String")
    return rows(columns, persistent + push)


def _extended_queries(push_queries: PushQueries, metrics: EngineMetrics) -> Rows:
    catalog, streams = push_queries.registry.catalog, push_queries.streams
    facts = [
        (record.id, *fact)
        for record in catalog.queries.values()
        for fact in query_facts(record, catalog, metrics)
    ]
    facts += [
        (query.query_id, *fact)
        for query in metrics.queries
        if query.query_id in streams
        for fact in push_facts(query, streams[query.query_id].schema)
    ]
    return rows(("Query ID", "Property", "Value"), facts)


def _functions(functions: Catalogue) -> Rows:
    listed = [(name, found.category) for name, found in functions.named().items()]
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


def _function(name: str, functions: Catalogue) -> Rows:
    found = functions.find(name)
    if found is None:
        raise plan_wordings.FUNCTION_MISSING(
            name=name,
            hint=did_you_mean(name, functions.named(), "SHOW FUNCTIONS lists all of them."),
        )
    facts = [("Name", found.name), ("Type", found.kind), ("Overview", found.description)]
    facts += [("Variation", f"{found.name}({signature})") for signature in found.signatures]
    facts += [("Example", f"{example.expression} = {example.result}") for example in found.examples]
    return rows(("Property", "Value"), facts, f"Name: {found.name}")

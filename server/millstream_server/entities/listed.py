"""The results of SHOW and LIST."""

from __future__ import annotations

from collections import Counter
from typing import Any, assert_never

from millstream.catalog.source import Source
from millstream.log.usage import TopicUsage
from millstream.model.properties import PROPERTIES
from millstream.model.schema import SourceKind
from millstream.query.session import Session
from millstream_parser.statements import Listing, Show
from millstream_server.entities.connectors import connector_list, connector_plugins
from millstream_server.entities.described import query_description, source_description
from millstream_server.entities.functions import function_names
from millstream_server.entities.shapes import schema_object
from millstream_server.entities.view import View

Entity = dict[str, Any]
QUERY_LEVEL = frozenset(
    {
        "auto.offset.reset",
        "cache.max.bytes.buffering",
        "ksql.fail.on.deserialization.error",
        "ksql.query.pull.max.allowed.offset.lag",
        "ksql.query.pull.table.scan.enabled",
        "ksql.timestamp.throw.on.invalid",
        "max.task.idle.ms",
    }
)
"""Properties that every client may change for a query."""


def listed(statement: Show, text: str, view: View, session: Session) -> Entity:
    """The entity of a SHOW."""
    made = _listed(statement, view, session)
    return {"@type": made.pop("@type"), "statementText": text, **made, "warnings": []}


def _listed(statement: Show, view: View, session: Session) -> Entity:
    match statement.listing:
        case Listing.STREAMS:
            return _sources(SourceKind.STREAM, statement.extended, view)
        case Listing.TABLES:
            return _sources(SourceKind.TABLE, statement.extended, view)
        case Listing.TOPICS:
            return _topics(statement, view)
        case Listing.QUERIES:
            return _queries(statement.extended, view)
        case Listing.TERMINATED_QUERIES:
            return {"@type": "terminated_queries", "terminatedQueries": _terminated(view)}
        case Listing.FUNCTIONS:
            return {"@type": "function_names", "functions": function_names(view.engine.functions)}
        case Listing.PROPERTIES:
            return _properties(session)
        case Listing.TYPES:
            types = sorted(view.engine.catalog.types.items())
            return {
                "@type": "type_list",
                "types": {name: schema_object(kind) for name, kind in types},
            }
        case Listing.VARIABLES:
            found = sorted(session.variables.items())
            return {
                "@type": "variables",
                "variables": [{"name": name, "value": value} for name, value in found],
            }
        case Listing.CONNECTOR_PLUGINS:
            return connector_plugins(view)
        case Listing.CONNECTORS | Listing.SOURCE_CONNECTORS | Listing.SINK_CONNECTORS:
            return connector_list(statement.listing, view)
    assert_never(statement.listing)


def _sources(kind: SourceKind, extended: bool, view: View) -> Entity:
    found = view.of_kind(kind)
    if extended:
        described = [source_description(source, view, extended=True) for source in found]
        return {"@type": "source_descriptions", "sourceDescriptions": described}
    name = f"{kind.value.lower()}s"
    return {"@type": name, name: [_source(source) for source in found]}


def _source(source: Source) -> Entity:
    return {
        "type": source.kind.value,
        "name": source.name,
        "topic": source.topic,
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "isWindowed": source.window is not None,
    }


def _topics(statement: Show, view: View) -> Entity:
    is_internal = view.engine.settings.is_internal
    shown = [
        topic
        for topic in view.engine.log.topics()
        if (statement.all or not is_internal(topic.name)) and view.sight.topic(topic.name)
    ]
    topics: list[Entity] = [
        {"name": topic.name, "replicaInfo": [max(1, topic.replicas)] * topic.partitions}
        for topic in shown
    ]
    if statement.all:
        for topic in topics:
            topic["internal"] = is_internal(topic["name"])
    if not statement.extended:
        return {"@type": "kafka_topics", "topics": topics}
    places = [place for query in view.figures.queries for place in query.positions]
    consumers = Counter(place.topic for place in places)
    groups = Counter(
        topic
        for query in view.figures.queries
        for topic in {place.topic for place in query.positions}
    )
    usage = view.engine.log.usage([topic.name for topic in shown])
    for topic in topics:
        topic["consumerCount"] = consumers[topic["name"]]
        topic["consumerGroupCount"] = groups[topic["name"]]
        topic |= _usage(usage.get(topic["name"]))
    return {"@type": "kafka_topics_extended", "topics": topics}


def _usage(usage: TopicUsage | None) -> Entity:
    """What a topic holds, beside what ksqlDB tells; null where the log cannot tell."""
    if usage is None:
        return {}
    return {
        "startOffsets": list(usage.starts),
        "endOffsets": list(usage.ends),
        "records": usage.records,
        "bytes": usage.bytes,
        "oldestTimestamp": usage.oldest,
        "uncompactedBytes": usage.uncompacted,
    }


def _queries(extended: bool, view: View) -> Entity:
    records, pushing = view.records(), view.pushing
    if extended:
        described = [query_description(record.id, view) for record in records]
        described += [query_description(query_id, view) for query_id in pushing]
        return {"@type": "query_descriptions", "queryDescriptions": described}
    return {
        "@type": "queries",
        "queries": view.queries(records) + [view.pushed(query_id) for query_id in pushing],
    }


def _terminated(view: View) -> list[Entity]:
    return [
        {
            "queryId": ended.record.id,
            "endedAt": ended.ended_at,
            "sink": ended.record.sink,
            "queryString": ended.record.statement,
        }
        for ended in view.engine.catalog.terminated
        if view.sight.record(ended.record)
    ]


def _properties(session: Session) -> Entity:
    changed = [item.name for item in PROPERTIES if item.name in session.properties]
    return {
        "@type": "properties",
        "properties": [
            {
                "name": item.name,
                "scope": "KSQL",
                "value": session.property(item.name),
                "editable": item.name in QUERY_LEVEL,
                "level": "QUERY" if item.name in QUERY_LEVEL else "SERVER",
            }
            for item in PROPERTIES
        ],
        "overwrittenProperties": changed,
        "defaultProperties": [item.name for item in PROPERTIES if item.name not in changed],
    }

"""The result of DESCRIBE and EXPLAIN: a source or a query with all details."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.catalog.source import Source
from millstream.metrics.figures import QueryMetrics
from millstream.model.schema import Column, SourceKind
from millstream.statements.described import schemas_of
from millstream.statements.inspect import existing_source
from millstream_server.entities.shapes import field_object, fields_of
from millstream_server.entities.view import View

Entity = dict[str, Any]


def source_description(source: Source, view: View, *, extended: bool) -> Entity:
    """A stream or table; its topic and its readers' lag only if `extended`."""
    catalog = view.engine.catalog
    topic = view.engine.log.topic(source.topic) if extended else None
    readers, writers = catalog.readers(source.name), catalog.writers(source.name)
    return {
        "name": source.name,
        "windowType": source.window.kind.value if source.window else None,
        "readQueries": view.queries(readers),
        "writeQueries": view.queries(writers),
        "fields": fields_of(source),
        "type": source.kind.value,
        "timestamp": source.timestamp.name if source.timestamp else "",
        "statistics": _statistics(source, view) if extended else "",
        "errorStats": _errors(source, view) if extended else "",
        "extended": extended,
        "keyFormat": source.key_format.name,
        "valueFormat": source.value_format.name,
        "topic": source.topic,
        "partitions": topic.partitions if topic else 0,
        "replication": max(1, topic.replicas) if topic else 0,
        "statement": source.statement,
        "queryOffsetSummaries": _offsets(source, view) if extended else [],
        "sourceConstraints": [n for n in catalog.made_from(source.name) if view.sight.source(n)],
        "clusterStatistics": [],
        "clusterErrorStats": [],
        **(_schemas(source, view) if extended else {}),
    }


def _schemas(source: Source, view: View) -> Entity:
    """The schemas that the registry has; ksqlDB does not say them."""
    return {f"{side}Schema": text for side, text in schemas_of(source, view.engine.registry)}


def described_source(name: str, text: str, view: View, *, extended: bool) -> Entity:
    """The entity of DESCRIBE; raises StatementError if there is no such source."""
    source = existing_source(name, view.engine.catalog)
    return {
        "@type": "sourceDescription",
        "statementText": text,
        "sourceDescription": source_description(source, view, extended=extended),
        "warnings": [],
    }


def described_sources(kind: str, text: str, view: View, *, extended: bool) -> Entity:
    """The entity of DESCRIBE STREAMS and DESCRIBE TABLES."""
    found = view.of_kind(SourceKind.STREAM if kind == "STREAMS" else SourceKind.TABLE)
    return {
        "@type": "source_descriptions",
        "statementText": text,
        "sourceDescriptions": [source_description(s, view, extended=extended) for s in found],
        "warnings": [],
    }


def query_description(query_id: str, view: View, plan: str = "", topology: str = "") -> Entity:
    """A running query. `plan` and `topology` as EXPLAIN shows them."""
    catalog = view.engine.catalog
    record, stream = catalog.queries.get(query_id), view.engine.push_queries.streams.get(query_id)
    columns: Sequence[Column] = ()
    window, text = None, record.statement if record else ""
    sink = catalog.sources.get(record.sink or "") if record else None
    if sink is not None:
        columns, window = sink.schema.columns, sink.window
    elif stream is not None:
        columns, text = stream.schema.columns, stream.statement
    figures = view.figures_of(query_id)
    return {
        "id": query_id,
        "statementText": text,
        "windowType": window.kind.value if window else None,
        "fields": [field_object(column) for column in columns],
        "sources": list(record.sources) if record else [],
        "sinks": [record.sink] if record and record.sink else [],
        "topology": topology,
        "executionPlan": plan,
        "overriddenProperties": dict(record.properties) if record else {},
        "ksqlHostQueryStatus": view.states_of(query_id),
        "queryType": "PERSISTENT" if record else "PUSH",
        "queryErrors": _query_errors(figures),
        "tasksMetadata": _tasks(figures),
        "consumerGroupId": view.engine.settings.internal_prefix + query_id if record else query_id,
        "state": view.state_of(query_id),
    }


def planned_description(
    text: str, columns: Sequence[Column], plan: str, topology: str, kind: str = "PUSH"
) -> Entity:
    """A query that does not run."""
    return {
        "id": "",
        "statementText": text,
        "windowType": None,
        "fields": [field_object(column) for column in columns],
        "sources": [],
        "sinks": [],
        "topology": topology,
        "executionPlan": plan,
        "overriddenProperties": {},
        "ksqlHostQueryStatus": {},
        "queryType": kind,
        "queryErrors": [],
        "tasksMetadata": [],
        "consumerGroupId": None,
        "state": None,
    }


def explained(text: str, description: Entity) -> Entity:
    """The entity of EXPLAIN."""
    return {
        "@type": "queryDescription",
        "statementText": text,
        "queryDescription": description,
        "warnings": [],
    }


def _statistics(source: Source, view: View) -> str:
    """Records that queries have written into the source."""
    written = [view.figures_of(query.id) for query in view.engine.catalog.writers(source.name)]
    found = [query for query in written if query is not None]
    if not found:
        return ""
    rate = sum(query.traffic.out_per_second for query in found)
    total = sum(query.traffic.records_out for query in found)
    return f"messages-per-sec: {rate:10.2f}   total-messages: {total:10}"


def _errors(source: Source, view: View) -> str:
    read = [view.figures_of(query.id) for query in view.engine.catalog.readers(source.name)]
    failed = sum(sum(query.problems.values()) for query in read if query is not None)
    return f"consumer-failed-messages: {failed}" if failed else ""


def _offsets(source: Source, view: View) -> list[Entity]:
    summaries = []
    for query in view.engine.catalog.readers(source.name):
        figures = view.figures_of(query.id)
        places = [p for p in figures.positions if p.topic == source.topic] if figures else []
        if not places:
            continue
        offsets = [
            {
                "partition": place.partition,
                "logStartOffset": view.engine.log.start_offset(place.topic, place.partition),
                "logEndOffset": place.position + (place.lag or 0),
                "consumerOffset": place.position,
            }
            for place in places
        ]
        summaries.append(
            {
                "groupId": view.engine.settings.internal_prefix + query.id,
                "topicSummaries": [{"kafkaTopic": source.topic, "offsets": offsets}],
            }
        )
    return summaries


def _query_errors(figures: QueryMetrics | None) -> list[Entity]:
    if figures is None or not figures.error:
        return []
    return [
        {
            "timestamp": figures.last_run_ms or 0,
            "errorMessage": figures.error,
            "type": "UNKNOWN",
        }
    ]


def _tasks(figures: QueryMetrics | None) -> list[Entity]:
    tasks: dict[int, list[Entity]] = {}
    for place in figures.positions if figures else ():
        tasks.setdefault(place.partition, []).append(
            {
                "topicPartitionEntity": {"topic": place.topic, "partition": place.partition},
                "endOffset": place.position + (place.lag or 0),
                "committedOffset": place.position,
            }
        )
    return [
        {"taskId": f"0_{number}", "topicOffsets": offsets, "timeCurrentIdlingStarted": None}
        for number, offsets in sorted(tasks.items())
    ]

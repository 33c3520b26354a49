"""Everything there is to say of a source or a query: DESCRIBE, SHOW and EXPLAIN in full."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from millstream.catalog.catalog import QueryRecord
from millstream.catalog.source import Source
from millstream.log.log import TopicPartition
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.runtime.spec import QueryStatus, StageStatus
from millstream.service.engine import Engine

Facts = list[tuple[str, str]]


def field_rows(source: Source) -> Facts:
    """The columns of a source with their types, marked as keys or headers."""
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


def source_facts(source: Source, engine: Engine) -> Facts:
    """DESCRIBE … EXTENDED: the source, its topic, who uses it, and how far each reader is."""
    topic = engine.log.topic(source.topic)
    partitions = topic.partitions if topic else 0
    readers = engine.catalog.readers(source.name)
    writers = engine.catalog.writers(source.name)
    places = [(source.topic, partition) for partition in range(partitions)]
    statuses = {status.query_id: status for status in engine.statuses()}
    facts = [
        ("Name", source.name),
        ("Type", source.kind.value),
        ("Timestamp field", _timestamp(source)),
        ("Key format", source.key_format.name),
        ("Value format", source.value_format.name),
        ("Kafka topic", _topic_text(source.topic, partitions, topic.replicas if topic else 0)),
        ("Statement", source.statement),
        ("Queries that read from it", _names(query.id for query in readers)),
        ("Queries that write into it", _names(query.id for query in writers)),
        ("Sources made from it", _names(engine.catalog.made_from(source.name))),
        ("Start offsets", _names(str(engine.log.start_offset(*place)) for place in places)),
        ("End offsets", _names(str(engine.log.end_offset(*place)) for place in places)),
    ]
    for query in readers:
        status = statuses.get(query.id)
        if status is not None:
            facts.append((f"Offsets of {query.id}", _offsets(status, places)))
        unused = engine.processing_log.count(query.id)
        if unused:
            facts.append((f"Rows not used by {query.id}", str(unused)))
    facts += [
        (f"Records written by {query.id}", str(statuses[query.id].metrics.records_out))
        for query in writers
        if query.id in statuses
    ]
    return facts + _fields(field_rows(source))


def query_facts(query: QueryRecord, engine: Engine) -> Facts:
    """What a persistent query is, and what it has done since the database was opened."""
    status = next((item for item in engine.statuses() if item.query_id == query.id), None)
    sink = engine.catalog.sources.get(query.sink or "")
    facts = [
        ("ID", query.id),
        ("Query Type", "PERSISTENT"),
        ("Status", status_text(status, engine.failed.get(query.id))),
        ("Sources", _names(query.sources)),
        ("Sinks", query.sink or ""),
        ("Sink Kafka topic", sink.topic if sink else ""),
        ("Statement", query.statement),
    ]
    facts += [
        (f"Overridden property {name}", value) for name, value in sorted(query.properties.items())
    ]
    if sink is not None:
        facts += _fields(field_rows(sink))
    return facts if status is None else facts + _progress(status)


def push_facts(status: QueryStatus, schema: Schema) -> Facts:
    """The same of a push query."""
    facts = [
        ("ID", status.query_id),
        ("Query Type", "PUSH"),
        ("Status", status_text(status, None)),
    ]
    fields = [(column.name, str(column.type)) for column in schema.columns]
    return facts + _fields(fields) + _progress(status)


def status_text(status: QueryStatus | None, failure: str | None) -> str:
    """The state of a query, and what is wrong with it."""
    if status is None:
        return f"ERROR: {failure or 'it is not running'}"
    return f"{status.state.value}: {status.error}" if status.error else status.state.value


def _progress(status: QueryStatus) -> Facts:
    figures = status.metrics
    facts = [
        ("Commits", str(figures.commits)),
        ("Last commit waited for", f"{figures.commit_wait_ms} ms"),
        ("Longest wait for a commit", f"{figures.commit_wait_max_ms} ms"),
    ]
    for stage in status.stages:
        facts.append((f"Sub-topology {stage.index}", _stage_text(stage)))
    topics = sorted({topic for topic, _ in status.positions})
    for topic in topics:
        places = sorted(place for place in status.positions if place[0] == topic)
        facts.append((f"Offsets in {topic}", _offsets(status, places)))
    return facts


def _stage_text(stage: StageStatus) -> str:
    figures = stage.metrics
    lag = "unknown" if stage.lag < 0 else str(stage.lag)
    parts = [
        f"{stage.tasks} tasks",
        f"{figures.records_in} records in",
        f"{figures.records_out} out",
        f"{figures.late} late",
        f"{figures.problems} with problems",
        f"{figures.changes} changes of state",
        f"lag {lag}",
    ]
    if stage.to_restore:
        parts.append(f"{stage.to_restore} to restore")
    return ", ".join(parts)


def _offsets(status: QueryStatus, places: Sequence[TopicPartition]) -> str:
    """How far a query is in each partition, and the greatest distance from an end."""
    known = [place for place in places if place in status.positions]
    listed = (
        f"{partition}: {status.positions[topic, partition]} (lag {status.lag[topic, partition]})"
        for topic, partition in known
    )
    greatest = max((status.lag[place] for place in known), default=0)
    return f"{', '.join(listed)}; max lag {greatest}"


def _timestamp(source: Source) -> str:
    return source.timestamp.name if source.timestamp else "Not set - using <ROWTIME>"


def _topic_text(topic: str, partitions: int, replicas: int) -> str:
    return f"{topic} (partitions: {partitions}, replication: {replicas})"


def _fields(rows: Facts) -> Facts:
    return [(f"Field {name}", text) for name, text in rows]


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)

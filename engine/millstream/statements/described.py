"""The facts that DESCRIBE, SHOW … EXTENDED and EXPLAIN show of a source or a query."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.catalog.catalog import Catalog, QueryRecord
from millstream.catalog.formats import INFERRING
from millstream.catalog.source import Source
from millstream.formats.registered import subject_of
from millstream.metrics.figures import EngineMetrics, QueryMetrics
from millstream.metrics.progress import (
    Facts,
    group_text,
    query_progress,
    read_facts,
    unused_text,
    written_fact,
)
from millstream.model.errors import MillstreamError
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.model.schema_text import Schemas
from millstream.queries.registry import QueryRegistry


def field_rows(source: Source) -> Facts:
    """The columns of a source with their types; keys and headers are marked."""
    columns = source.schema.columns
    return [(column.name, f"{column.type}{_role_text(column, source)}") for column in columns]


def _role_text(column: Column, source: Source) -> str:
    match column.role:
        case Role.KEY:
            window = f" (Window type: {source.window.kind.value})" if source.window else ""
            return f"{'  (primary key)' if source.kind is SourceKind.TABLE else '  (key)'}{window}"
        case Role.HEADERS:
            return f"  (header('{column.header}'))" if column.header else "  (headers)"
        case Role.VALUE:
            return ""


def source_facts(source: Source, registry: QueryRegistry, metrics: EngineMetrics) -> Facts:
    """DESCRIBE … EXTENDED: a source, its topic, the queries that use it, and their positions."""
    topic = registry.log.topic(source.topic)
    partitions = topic.partitions if topic else 0
    readers = registry.catalog.readers(source.name)
    writers = registry.catalog.writers(source.name)
    topic_partitions = [(source.topic, partition) for partition in range(partitions)]
    starts = [registry.log.start_offset(*each) for each in topic_partitions]
    facts = [
        ("Name", source.name),
        ("Type", source.kind.value),
        ("Timestamp field", _timestamp(source)),
        ("Key format", source.key_format.name),
        ("Value format", source.value_format.name),
        *((f"{side.capitalize()} schema", text) for side, text in schemas_of(source, registry)),
        ("Kafka topic", _topic_text(source.topic, partitions, topic.replicas if topic else 0)),
        ("Statement", source.statement),
        ("Queries that read from it", _names(query.id for query in readers)),
        ("Queries that write into it", _names(query.id for query in writers)),
        ("Sources made from it", _names(registry.catalog.made_from(source.name))),
        ("Start offsets", _names(map(str, starts))),
        ("End offsets", _names(str(registry.log.end_offset(*each)) for each in topic_partitions)),
    ]
    metrics_by_id = {query.query_id: query for query in metrics.queries}
    reading = [metrics_by_id[query.id] for query in readers if query.id in metrics_by_id]
    facts += [
        written_fact(metrics_by_id[query.id], source.topic)
        for query in writers
        if query.id in metrics_by_id
    ]
    for query in reading:
        facts += read_facts(query, source.topic)
        if query.problems:
            facts.append((f"Rows not used by {query.query_id}", unused_text(query)))
    facts += [
        (f"Consumer group {query.query_id}", group_text(query, starts, source.topic))
        for query in reading
    ]
    return facts + _fields(field_rows(source))


def schemas_of(source: Source, registry: QueryRegistry) -> list[tuple[str, str]]:
    """The newest schemas of the keys and values of a source that the registry has: the side, and
    which schema it is, or why nobody knows."""
    found = []
    for role, form in ((Role.KEY, source.key_format), (Role.VALUE, source.value_format)):
        if form.name in INFERRING and registry.schemas is not None:
            subject = subject_of(source.topic, role.value)
            found.append((role.value, _newest(subject, registry.schemas)))
    return found


def _newest(subject: str, schemas: Schemas) -> str:
    try:
        newest = schemas.prompt().latest(subject)
    except MillstreamError as error:
        return f"{subject}: {error.message}"
    if newest is None:
        return f"{subject} has none"
    return f"{subject}, version {newest.version}, id {newest.id}"


def query_facts(record: QueryRecord, catalog: Catalog, metrics: EngineMetrics) -> Facts:
    """The definition of a persistent query, and its metrics since the database was opened."""
    query = next((item for item in metrics.queries if item.query_id == record.id), None)
    sink = catalog.sources.get(record.sink or "")
    facts = [
        ("ID", record.id),
        ("Query Type", "PERSISTENT"),
        ("Status", status_text(query)),
        ("Sources", _names(record.sources)),
        ("Sinks", record.sink or ""),
        ("Sink Kafka topic", sink.topic if sink else ""),
        ("Statement", record.statement),
    ]
    facts += [
        (f"Overridden property {name}", value) for name, value in sorted(record.properties.items())
    ]
    if sink is not None:
        facts += _fields(field_rows(sink))
    if query is None or not query.sub_topologies:
        return facts
    return facts + query_progress(query)


def push_facts(query: QueryMetrics, schema: Schema) -> Facts:
    """The definition and the metrics of a push query."""
    facts = [
        ("ID", query.query_id),
        ("Query Type", query.type),
        ("Status", status_text(query)),
    ]
    fields = [(column.name, str(column.type)) for column in schema.columns]
    return facts + _fields(fields) + query_progress(query)


def status_text(query: QueryMetrics | None) -> str:
    """The state of a query, and its error if there is one."""
    if query is None:
        return "ERROR: it is not running"
    said = query.error or query.long_step
    return f"{query.state}: {said}" if said else query.state


def _timestamp(source: Source) -> str:
    return source.timestamp.name if source.timestamp else "Not set - using <ROWTIME>"


def _topic_text(topic: str, partitions: int, replicas: int) -> str:
    return f"{topic} (partitions: {partitions}, replication: {replicas})"


def _fields(rows: Facts) -> Facts:
    return [(f"Field {name}", text) for name, text in rows]


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)

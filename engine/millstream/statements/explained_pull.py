"""EXPLAIN of a pull query: shows the sources it reads, and the offsets of their snapshot."""

from __future__ import annotations

from millstream.catalog.source import Source
from millstream.cluster.cluster import Cluster
from millstream.cluster.scatter_gather import materialized_table
from millstream.cluster.stores import source_named
from millstream.log.log import TopicPartition
from millstream.model.schema import SourceKind
from millstream.query.extended import Written, sources_in, sources_of
from millstream.statements import wordings
from millstream_parser import statements as s

POSITIONS = "POSITIONS"
_ONE_TABLE = "One table: as of the last commit of its query."
_SEVERAL_TABLES = (
    "Several tables: all as of the same offsets. Every query reads its sources up to the offsets at"
    " which they end when the pull query starts, and commits."
)

_RANGED = "A source with a range of history is read from the log between the bounds of the range."


def pull_stages(
    statement: s.SelectStatement, stage: str | None, cluster: Cluster, script: str
) -> list[tuple[str, str]]:
    """The stages that EXPLAIN shows of a pull query: its statement and its positions."""
    if stage not in (None, "STATEMENT"):
        raise wordings.EXPLAINED_STAGE(
            stage=stage,
            hint=f"Use EXPLAIN ({stage}) with the id of the query that maintains the table.",
        )
    text = script if statement.span is None else script[statement.span.start : statement.span.end]
    if stage is not None:
        return [("STATEMENT", text)]
    query, ranged = statement.query, bool(statement.ranges)
    if query is not None:
        names = tuple(source.name for source in sources_in(query))
        ranged = ranged or any(source.range is not None for source in sources_in(query))
    else:
        names = sources_of(Written.of(statement, text))
    sources = {name: source_named(cluster.registry, name) for name in names}
    positions = positions_text(list(sources.values()), cluster)
    return [("STATEMENT", text), (POSITIONS, f"{positions}\n{_RANGED}" if ranged else positions)]


def positions_text(sources: list[Source], cluster: Cluster) -> str:
    """The queries that feed the tables, with their committed offsets and the end offsets of their
    inputs."""
    tables = [source for source in sources if source.kind is SourceKind.TABLE]
    queries = {materialized_table(table, cluster).query_id: table.name for table in tables}
    lines = [
        f"{source.name}: a stream, read from the log up to its end"
        for source in sources
        if source.kind is SourceKind.STREAM
    ]
    if queries:
        lines.append(_ONE_TABLE if len(queries) == 1 else _SEVERAL_TABLES)
    lineage = cluster.registry.runtime.lineage(queries)
    for query in lineage.queries:
        committed = cluster.registry.log.positions(query.query_id)
        inputs = [
            (topic.name, partition)
            for topic in cluster.registry.topics.get(query.query_id, ())
            if topic.name in query.inputs
            for partition in range(topic.partitions)
        ]
        ends = cluster.registry.log.end_offsets(inputs)
        table = queries.get(query.query_id)
        kind = f"keeps {table}" if table is not None else "feeds those behind it"
        lines.append(f"{query.query_id} ({kind})")
        lines += [f"  {_offsets_text(each, committed.get(each, 0), ends)}" for each in inputs]
    return "\n".join(lines)


def _offsets_text(
    topic_partition: TopicPartition, committed: int, ends: dict[TopicPartition, int]
) -> str:
    topic, partition = topic_partition
    end = ends.get(topic_partition)
    return f"{topic}-{partition}: committed up to {committed}, ends at " + (
        "an unknown offset" if end is None else str(end)
    )

"""Plans a historical query (one without EMIT) as a bounded run over a range of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from millstream.catalog.source import Source
from millstream.formats.decoder import decode_spec, decoder
from millstream.historical.historical import Historical
from millstream.history.ranges import Extent, Ranged, extent
from millstream.history.reading import FromLog
from millstream.history.splits import Run, Split, widths_of
from millstream.history.within import Timed
from millstream.log.log import TopicPartition
from millstream.model import refusals
from millstream.model.batch import ROWTIME
from millstream.model.physical import physical_names
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.plan.build import Planned, plan_query
from millstream.plan.nodes import Deliver, Project
from millstream.plan.places import span_of
from millstream.plan.sinks import Client
from millstream.queries.starting import fatal_problems, takes_by_arrival, topology_of
from millstream.query import wordings
from millstream.query.extended import sources_in
from millstream.query.past import is_key, key_items, running, sorting
from millstream.query.session import Session
from millstream_parser import statements as s
from millstream_parser.history import Range

_FIRST_RECORDS = 1_000


@dataclass(frozen=True, slots=True)
class BoundedQuery:
    """A historical query as a bounded run.

    `columns`: the physical names of the columns of the result, whose names and types are in
    `schema`. Of a TABLE, the last row for each value of `keys` counts. `order`: physical columns,
    each with whether it is descending.
    """

    run: Run
    timed: Mapping[str, Timed]
    schema: Schema
    columns: tuple[str, ...]
    kind: SourceKind
    all_columns: tuple[tuple[str, Column], ...]
    """All columns of the rows that the run produces: physical name and column."""
    keys: tuple[str, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()


def plan_historical(
    query: s.Query, historical: Historical, session: Session, script: str
) -> BoundedQuery:
    """Plan a query of the dialect as a bounded run. Raises StatementError if a push query could
    not be planned from it."""
    push = running(query)
    planned = _planned(push, historical, session, script)
    visible, kind = planned.node.schema, planned.node.kind
    order = sorting(query, visible.names)
    hidden = (*key_items(query, kind), *order.items)
    if hidden:
        planned = _planned(replace(push, items=(*push.items, *hidden)), historical, session, script)
    if kind is SourceKind.TABLE:
        planned = _keyed(planned)
    schema = planned.node.schema
    physical = dict(zip(schema.names, physical_names(schema.names), strict=True))
    run, timed = _run(planned, ranges_of(query, historical), historical, session)
    ends_early = kind is SourceKind.STREAM and not order.columns
    return BoundedQuery(
        replace(run, limit=query.limit) if ends_early else run,
        timed,
        visible,
        tuple(physical[name] for name in visible.names),
        kind,
        tuple((physical[column.name], column) for column in schema.columns),
        tuple(physical[c.name] for c in schema.columns if run.cached and c.role is Role.KEY),
        tuple((physical[name], descending) for name, descending in order.columns),
    )


def _run(
    planned: Planned, ranges: Mapping[str, Range | None], historical: Historical, session: Session
) -> tuple[Run, dict[str, Timed]]:
    """The run, and the time bounds of the topics that it reads."""
    topology = topology_of(
        historical.registry, f"past_{historical.cluster.clock()}", planned, alone=True
    )
    splits, timed = _extents(planned, ranges, historical)
    run = Run(
        topology,
        splits,
        widths_of(topology, historical.registry.log),
        cached=planned.node.kind is SourceKind.TABLE,
        fatal=fatal_problems(session.properties),
        by_arrival=takes_by_arrival(historical.registry.log, topology, session.properties),
        memory_limit=historical.registry.settings.history_memory_limit,
        schemas=historical.registry.schemas,
    )
    return run, timed


def ranges_of(query: s.Query, historical: Historical) -> dict[str, Range | None]:
    """The ranges of a query's sources by topic. Raises StatementError if a topic has two ranges."""
    found: dict[str, Range | None] = {}
    for item in sources_in(query):
        topic = historical.registry.catalog.source(item.name).topic
        if found.setdefault(topic, item.range) != item.range:
            raise wordings.TOPIC_IN_TWO_RANGES(
                topic=topic,
                hint="Use one range, and filter by ROWTIME.",
                span=span_of(item.span),
            )
    return found


def _planned(query: s.Query, historical: Historical, session: Session, script: str) -> Planned:
    return plan_query(
        query,
        historical.registry.catalog,
        target=Client(),
        properties=session.properties,
        functions=historical.registry.functions,
        script=script,
    )


def _keyed(planned: Planned) -> Planned:
    """The plan with every column marked as a key that identifies its rows."""
    node = planned.node
    assert isinstance(node, Deliver) and isinstance(node.input, Project)
    columns = tuple(
        replace(column, role=Role.KEY) if is_key(column.name) else column
        for column in node.input.schema.columns
    )
    return replace(planned, node=replace(node, input=replace(node.input, schema=Schema(columns))))


def _extents(
    planned: Planned, ranges: Mapping[str, Range | None], historical: Historical
) -> tuple[dict[TopicPartition, Split], dict[str, Timed]]:
    """The splits of all sources, and the time bounds of each topic."""
    splits: dict[TopicPartition, Split] = {}
    timed: dict[str, Timed] = {}
    for source in planned.sources:
        found = extent_of(source, ranges[source.topic], historical)
        splits |= found.splits
        timed[source.topic] = _timed(source, found, ranges[source.topic], historical)
    return splits, timed


def _timed(source: Source, found: Extent, ranged: Range | None, historical: Historical) -> Timed:
    ends = historical.registry.log.end_offsets(found.splits)
    return Timed(
        found.bounds,
        decode_spec(source, schemas=historical.registry.schemas)
        if source.timestamp is not None
        else None,
        compacted=ranged is not None
        and source.kind is SourceKind.TABLE
        and _may_be_compacted(source, found, historical),
        cut=any(
            split.end < ends.get(topic_partition, 0)
            for topic_partition, split in found.splits.items()
        ),
    )


def _may_be_compacted(source: Source, found: Extent, historical: Historical) -> bool:
    topic = historical.registry.log.topic(source.topic)
    config = topic.config if topic is not None else {}
    since = historical.cluster.clock() - int(config.get("min.compaction.lag.ms", "0"))
    recent = found.bounds.end is not None and found.bounds.end > since
    return "compact" in config.get("cleanup.policy", "") and not recent


def extent_of(source: Source, ranged: Range | None, historical: Historical) -> Extent:
    """The offsets that a range of a source covers now."""
    topic = historical.registry.log.topic(source.topic)
    if topic is None:
        raise refusals.UNKNOWN_TOPIC(topic=source.topic)
    first = partial(_first_time, source, historical)
    return extent(
        Ranged(source.name, topic, ranged),
        historical.registry.log,
        historical.cluster.clock(),
        first,
    )


def _first_time(source: Source, historical: Historical, split: Split) -> int | None:
    first = replace(split, end=min(split.end, split.start + _FIRST_RECORDS))
    spec = decode_spec(source, schemas=historical.registry.schemas)
    with decoder(spec, split.topic) as decoded:
        for records, _ in FromLog(historical.registry.log).pieces(first):
            times = decoded(records, split.partition).table[ROWTIME]
            if len(times):
                return int(times[0].as_py())
    return None

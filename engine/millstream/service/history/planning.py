"""From a query without EMIT to a bounded run whose last rows are its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import duckdb
from sqlglot import exp

from millstream.catalog.rules import WINDOW_BOUNDS
from millstream.catalog.source import Source
from millstream.formats.codec import DecodeSpec
from millstream.history.ranges import Extent, Ranged, extent
from millstream.history.reading import FromLog
from millstream.history.splits import Run, Split, widths_of
from millstream.history.within import Timed, event_times
from millstream.log.log import TopicPartition
from millstream.model.batch import ROWTIME
from millstream.model.errors import StatementError
from millstream.model.physical import physical_names
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.plan.build import Planned, plan_query
from millstream.plan.nodes import Deliver, Project
from millstream.plan.sinks import Client
from millstream.service.engine import Engine
from millstream.service.queries import fatal_problems, topology_of
from millstream.service.session import Session
from millstream_parser import statements as s

_KEY = "$KEY_"
_FIRST_RECORDS = 1_000


@dataclass(frozen=True, slots=True)
class Past:
    """A query over history as a bounded run.

    Of the rows that it makes, `columns` (physical names) are the answer, with the names and types
    of `schema`; of a TABLE the last ones by `keys` count. `order`: physical column and whether it
    is descending.
    """

    run: Run
    timed: Mapping[str, Timed]
    schema: Schema
    columns: tuple[str, ...]
    kind: SourceKind
    made: tuple[tuple[str, Column], ...]
    """All columns of the rows that are made: physical name and column."""
    keys: tuple[str, ...] = ()
    order: tuple[tuple[str, bool], ...] = ()

    @property
    def records(self) -> int:
        """How many records are read at most."""
        return sum(split.end - split.start for split in self.run.splits.values())


def plan_past(query: s.Query, engine: Engine, session: Session, script: str) -> Past:
    """The bounded run of a query of the dialect; StatementError for what a push query may not."""
    ranges = ranges_of(query, engine)
    asked = _without_ranges(query)
    planned = _planned(asked, engine, session, script)
    visible, kind = planned.node.schema, planned.node.kind
    hidden = _keys(query, kind)
    order, sorting = _order(query, visible)
    hidden |= sorting
    if hidden:
        items = tuple(s.SelectItem(tree, name) for name, tree in hidden.items())
        planned = _planned(replace(asked, items=(*asked.items, *items)), engine, session, script)
    if kind is SourceKind.TABLE:
        planned = _keyed(planned)
    schema = planned.node.schema
    names = physical_names(schema.names)
    by_name = dict(zip(schema.names, names, strict=True))
    is_table = kind is SourceKind.TABLE
    topology = topology_of(engine, f"past_{engine.clock()}", planned)
    splits, timed = _reach(planned, ranges, engine)
    return Past(
        Run(
            topology,
            splits,
            widths_of(topology, engine.log),
            cached=is_table,
            fatal=fatal_problems(session.properties),
        ),
        timed,
        visible,
        tuple(by_name[name] for name in visible.names),
        kind,
        tuple(zip(names, planned.node.schema.columns, strict=True)),
        tuple(
            by_name[column.name]
            for column in planned.node.schema.columns
            if is_table and column.role is Role.KEY
        ),
        tuple((by_name[name], descending) for name, descending in order),
    )


def ranges_of(query: s.Query, engine: Engine) -> dict[str, s.Range | None]:
    """The ranges of a query's sources, by their topics; a topic can have but one."""
    found: dict[str, s.Range | None] = {}
    for item in (query.source, *(join.source for join in query.joins)):
        topic = engine.catalog.source(item.name).topic
        if found.setdefault(topic, item.range) != item.range:
            raise StatementError(
                f"Topic {topic} is read in two different ranges.",
                hint="Ask for one range, and filter by ROWTIME.",
            )
    return found


def _without_ranges(query: s.Query) -> s.Query:
    joins = tuple(replace(j, source=replace(j.source, range=None)) for j in query.joins)
    source = replace(query.source, range=None)
    return replace(query, source=source, joins=joins, emit="CHANGES", order_by=(), limit=None)


def _planned(query: s.Query, engine: Engine, session: Session, script: str) -> Planned:
    return plan_query(
        query,
        engine.catalog,
        target=Client(),
        properties=session.properties,
        functions=engine.functions,
        script=script,
    )


def _keys(query: s.Query, kind: SourceKind) -> dict[str, exp.Expression]:
    """What is selected besides, to tell the rows of an aggregation apart."""
    if kind is SourceKind.STREAM:
        return {}
    trees = list(query.group_by)
    if query.window is not None:
        trees += [_column(name) for name in WINDOW_BOUNDS]
    return {f"{_KEY}{number}": tree for number, tree in enumerate(trees)}


def _order(
    query: s.Query, visible: Schema
) -> tuple[list[tuple[str, bool]], dict[str, exp.Expression]]:
    """The columns to sort by, and what is selected besides for that."""
    order, besides = [], {}
    for number, (tree, descending) in enumerate(query.order_by):
        name = f"$ORDER_{number}"
        if isinstance(tree, exp.Column) and not tree.table and tree.name in visible.names:
            name = tree.name
        else:
            besides[name] = tree
        order.append((name, descending))
    return order, besides


def _keyed(planned: Planned) -> Planned:
    """The plan, with all columns as keys that tell its rows apart."""
    node = planned.node
    assert isinstance(node, Deliver) and isinstance(node.input, Project)
    columns = tuple(
        replace(column, role=Role.KEY)
        if column.name.startswith(_KEY) or column.name in WINDOW_BOUNDS
        else column
        for column in node.input.schema.columns
    )
    return replace(planned, node=replace(node, input=replace(node.input, schema=Schema(columns))))


def _reach(
    planned: Planned, ranges: Mapping[str, s.Range | None], engine: Engine
) -> tuple[dict[TopicPartition, Split], dict[str, Timed]]:
    """What is read of each source."""
    splits: dict[TopicPartition, Split] = {}
    timed: dict[str, Timed] = {}
    for source in planned.sources:
        found = extent_of(source, ranges[source.topic], engine)
        splits |= found.splits
        timed[source.topic] = _timed(source, found, ranges[source.topic], engine)
    return splits, timed


def _timed(source: Source, found: Extent, ranged: s.Range | None, engine: Engine) -> Timed:
    ends = engine.log.end_offsets(found.splits)
    return Timed(
        found.bounds,
        _times(source) if source.timestamp is not None else None,
        compacted=ranged is not None
        and source.kind is SourceKind.TABLE
        and _may_be_compacted(source, found, engine),
        cut=any(split.end < ends.get(place, 0) for place, split in found.splits.items()),
    )


def _may_be_compacted(source: Source, found: Extent, engine: Engine) -> bool:
    topic = engine.log.topic(source.topic)
    config = topic.config if topic is not None else {}
    since = engine.clock() - int(config.get("min.compaction.lag.ms", "0"))
    recent = found.bounds.end is not None and found.bounds.end > since
    return "compact" in config.get("cleanup.policy", "") and not recent


def extent_of(source: Source, ranged: s.Range | None, engine: Engine) -> Extent:
    """What a range of a source means now."""
    topic = engine.log.topic(source.topic)
    if topic is None:
        raise StatementError(f"Kafka topic does not exist: {source.topic}")
    first = partial(_first_time, source, engine)
    return extent(Ranged(source.name, topic, ranged), engine.log, engine.clock(), first)


def _first_time(source: Source, engine: Engine, split: Split) -> int | None:
    few = replace(split, end=min(split.end, split.start + _FIRST_RECORDS))
    con = duckdb.connect()
    try:
        for records, _ in FromLog(engine.log).pieces(few):
            times = event_times(con, records, _times(source), split)[ROWTIME]
            if len(times):
                return int(times[0].as_py())
    finally:
        con.close()
    return None


def _times(source: Source) -> DecodeSpec:
    """How to learn the event times of a source's records."""
    return DecodeSpec(
        source.key_format,
        source.value_format,
        source.schema,
        (),
        source.window,
        source.timestamp,
        is_table=source.kind is SourceKind.TABLE,
    )


def whole(name: str, ranged: s.Range | None, columns: tuple[str, ...]) -> s.Query:
    """A query for some columns of a source."""
    items = tuple(s.SelectItem(_column(column), column) for column in columns)
    return s.Query(items, s.AliasedSource(name, range=ranged))


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))

"""CREATE … AS SELECT and INSERT INTO … SELECT: persistent queries that are started or replaced."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.catalog.catalog import Catalog, QueryKind, QueryRecord
from millstream.catalog.properties import Form, read_properties
from millstream.catalog.source import Source
from millstream.ddl import wordings
from millstream.ddl.effects import (
    BackfillQuery,
    Change,
    Effect,
    EndQuery,
    ReplacedTable,
    ReplaceQuery,
    StartQuery,
    nothing_to_do,
)
from millstream.ddl.environment import ConfiguredStatement, PlanningContext
from millstream.ddl.sources import check_replacing
from millstream.ddl.topics import created, refuse_internal, sink_topic
from millstream.ddl.topologies import topology_of
from millstream.ddl.upgrade import check_state, state_tables
from millstream.formats.validate import check_formats
from millstream.model.errors import StatementError
from millstream.plan import define
from millstream.plan.build import Planned, plan_query
from millstream.plan.intermediates import check_intermediates
from millstream.plan.places import placed, placed_by_name
from millstream.plan.qualify import qualified
from millstream.plan.sinks import ExistingStream, NewSource
from millstream.plan.upgrade import check_upgrade
from millstream_parser import print_statement
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A persistent query, and the catalog with it. `replaced`: the table that it computes anew."""

    record: QueryRecord
    planned: Planned
    catalog: Catalog
    replaced: ReplacedTable | None = None


def asks_for_past(statement: s.CreateAs) -> bool:
    """Whether the past of the query is to be computed by a job."""
    return any(name == "BACKFILL" for name, _ in statement.properties)


def create_as(statement: s.CreateAs, context: PlanningContext) -> Change:
    """CREATE [OR REPLACE] … AS SELECT."""
    before = context.before
    if statement.name in before.catalog.sources and statement.if_not_exists:
        noun = statement.kind.capitalize()
        return nothing_to_do(before, f"{noun} {statement.name} already exists; nothing was changed")
    made = plan_create_as(statement, context)
    record = made.record
    after = before.with_catalog(made.catalog, {record.id: made.planned})
    message = f"Created query with ID {record.id}"
    if record.id in before.catalog.queries:
        _check_upgrade(made, context)
        return Change(after, message, (ReplaceQuery(record.id),), record.id)
    effects = _topic_effects(record.id, made.planned, context)
    if made.replaced is not None and made.replaced.query_id is not None:
        old = made.replaced.query_id
        effects.append(EndQuery(old, before.topics.get(old, ())))
    effects.append(
        BackfillQuery(record.id, made.replaced)
        if asks_for_past(statement)
        else StartQuery(record.id)
    )
    return Change(after, message, tuple(effects), record.id)


def insert_into(statement: s.InsertInto, context: PlanningContext) -> Change:
    """INSERT INTO … SELECT."""
    properties = read_properties(statement.properties, Form.INSERT)
    query_id = properties.query_id or f"INSERTQUERY_{context.given.number}"
    target = ExistingStream(statement.target, statement.properties)
    planned = _planned(statement.query, target, context)
    _refuse_internal(context.catalog.source(statement.target), context)
    record = _record(query_id, QueryKind.INSERT, planned, statement.target, context.given)
    catalog = context.catalog.with_query(record)
    effects = _topic_effects(query_id, planned, context)
    return Change(
        context.before.with_catalog(catalog, {query_id: planned}),
        f"Created query with ID {query_id}",
        (*effects, StartQuery(query_id)),
        query_id,
    )


def plan_create_as(statement: s.CreateAs, context: PlanningContext) -> PlannedQuery:
    """Plan the query of CREATE [OR REPLACE] … AS SELECT and check its sink."""
    existing = context.catalog.sources.get(statement.name)
    check_replacing(statement, context.given)
    query_id = _query_id(statement, existing, context.given)
    target = NewSource(
        statement.kind, statement.name, statement.properties, context.given.text, query_id
    )
    planned = _planned(statement.query, target, context)
    assert planned.sink is not None
    origins = tuple(source.name for source in planned.sources)
    sink = replace(planned.sink, origins=origins)
    _check_formats(statement, planned, sink, context.catalog)
    define.check_new(sink, context.catalog, replacing=statement.or_replace)
    _refuse_internal(sink, context)
    catalog = context.catalog.with_source(sink, replacing=existing is not None)
    record = _record(query_id, QueryKind.CREATE_AS, planned, sink.name, context.given)
    replaced = None
    if existing is not None and asks_for_past(statement):
        if context.topics is not None:
            _refuse_made_anew(statement, planned, context.catalog)
        made_by = existing.query_id or ""
        old = made_by if made_by in catalog.queries else None
        replaced = ReplacedTable(existing.topic, old, made_by)
        catalog = catalog if old is None else catalog.without_query(old)
    catalog = catalog.with_query(record, replacing=query_id in context.catalog.queries)
    return PlannedQuery(record, planned, catalog, replaced)


def _query_id(statement: s.CreateAs, existing: Source | None, given: ConfiguredStatement) -> str:
    """A new id, or that of the query which goes on with another plan."""
    own = f"C{statement.kind[0]}AS_{statement.name}_{given.number}"
    if existing is None or not statement.or_replace:
        return own
    if existing.query_id is None and not existing.read_only:
        noun = existing.kind.value.lower()
        raise wordings.REPLACED_WITHOUT_QUERY(
            noun=noun,
            existing=existing.name,
            hint="Drop it first, or give the new one another name.",
        )
    return own if asks_for_past(statement) else existing.query_id or ""


def _planned(
    query: s.Query, target: NewSource | ExistingStream, context: PlanningContext
) -> Planned:
    return plan_query(
        query,
        context.catalog,
        target=target,
        properties=context.given.properties,
        functions=context.environment.functions,
        script=context.given.script,
    )


def _check_formats(statement: s.CreateAs, planned: Planned, sink: Source, catalog: Catalog) -> None:
    """Refuse formats that cannot carry what the query makes; the message shows the query, as its
    columns are not written down in a list."""
    with placed(statement.query.span):
        check_intermediates(planned.node, planned.sources[0].value_format)
    try:
        with placed(statement.query.span), placed_by_name(statement.properties):
            check_formats(sink.schema, sink.key_format, sink.value_format)
    except StatementError as error:
        full = replace(statement, query=qualified(statement.query, catalog))
        error.detail = f"Statement: {print_statement(full)}"
        raise


def _refuse_internal(sink: Source, context: PlanningContext) -> None:
    if context.topics is not None:
        refuse_internal(context.environment.settings, sink.topic, "write to")


def _record(
    query_id: str, kind: QueryKind, planned: Planned, sink: str, given: ConfiguredStatement
) -> QueryRecord:
    sources = tuple(source.name for source in planned.sources)
    return QueryRecord(query_id, given.text, kind, sources, sink, dict(given.properties))


def _refuse_made_anew(statement: s.CreateAs, planned: Planned, catalog: Catalog) -> None:
    """StatementError for a stream, and for a table that the query reads, itself or by way of
    others."""
    if statement.kind == "STREAM":
        raise wordings.STREAM_MADE_ANEW(
            name=statement.name,
            hint="Leave BACKFILL out: the new definition counts from now on. Or create another"
            " stream with BACKFILL.",
        )
    if statement.name in _made_of(planned, catalog):
        raise wordings.TABLE_OUT_OF_ITSELF(name=statement.name)


def _made_of(planned: Planned, catalog: Catalog) -> set[str]:
    """All streams and tables that a query reads, and those that these are made of."""
    found: set[str] = set()
    left = [source.name for source in planned.sources]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += catalog.sources[name].origins if name in catalog.sources else ()
    return found


def _topic_effects(query_id: str, planned: Planned, context: PlanningContext) -> list[Effect]:
    """The topic of the sink, if it is to be made. StatementError where the topics of the sources do
    not fit together."""
    topics, effects = context.topics, list[Effect]()
    if topics is not None:
        if planned.sink_topic is not None:
            effects += created(sink_topic(planned, topics), topics)
        topology_of(query_id, planned, context.environment)
    return effects


def _check_upgrade(made: PlannedQuery, context: PlanningContext) -> None:
    """Refuse a plan that cannot go on with the state of the running one."""
    query_id, environment = made.record.id, context.environment
    running = context.before.plans[query_id]
    check_upgrade(made.record.sink or query_id, running.node, made.planned.node)
    if environment.topics is not None:
        there = context.before.topics.get(query_id, ())
        kept, wanted = (
            state_tables(topology_of(query_id, plan, environment, there), environment.functions)
            for plan in (running, made.planned)
        )
        check_state(made.record.sink, kept, wanted)

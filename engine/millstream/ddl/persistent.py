"""Plans CREATE … AS SELECT and INSERT INTO … SELECT, which start or replace persistent queries."""

from __future__ import annotations

from collections.abc import Sequence
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
from millstream.ddl.registrations import registrations
from millstream.ddl.sources import check_replacing
from millstream.ddl.topics import missing_topic, refuse_internal, sink_topic
from millstream.ddl.topologies import topology_of
from millstream.ddl.upgrade import check_state, state_tables
from millstream.formats.validate import check_formats
from millstream.log.log import AS_THE_CLUSTER, Topic
from millstream.model.errors import StatementError
from millstream.model.settings import DEAD_LETTERS, effective
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
    """A persistent query, and the catalog that includes it. `replaced`: the table that it
    recomputes."""

    record: QueryRecord
    planned: Planned
    catalog: Catalog
    replaced: ReplacedTable | None = None


def has_backfill(statement: s.CreateAs) -> bool:
    """Whether the statement asks for a back-fill: a job computes the query's past."""
    return any(name == "BACKFILL" for name, _ in statement.properties)


def create_as(statement: s.CreateAs, context: PlanningContext) -> Change:
    """Plan CREATE [OR REPLACE] … AS SELECT."""
    before = context.before
    if statement.name in before.catalog.sources and statement.if_not_exists:
        noun = statement.kind.capitalize()
        return nothing_to_do(before, f"{noun} {statement.name} already exists; nothing was changed")
    planned_query = plan_create_as(statement, context)
    record = planned_query.record
    after = before.with_catalog(planned_query.catalog, {record.id: planned_query.planned})
    message = f"Created query with ID {record.id}"
    if record.id in before.catalog.queries:
        _check_upgrade(planned_query, context)
        dead = _dead_letter_topic(planned_query.planned, context)
        return Change(after, message, (*dead, ReplaceQuery(record.id)), record.id)
    effects = _topic_effects(record.id, planned_query.planned, context)
    if planned_query.replaced is not None and planned_query.replaced.query_id is not None:
        old = planned_query.replaced.query_id
        effects.append(EndQuery(old, before.topics.get(old, ())))
    effects.append(
        BackfillQuery(record.id, planned_query.replaced)
        if has_backfill(statement)
        else StartQuery(record.id)
    )
    return Change(after, message, tuple(effects), record.id)


def insert_into(statement: s.InsertInto, context: PlanningContext) -> Change:
    """Plan INSERT INTO … SELECT."""
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
    if existing is not None and has_backfill(statement):
        if context.topics is not None:
            _check_backfill_replace(statement, planned, context.catalog)
        made_by = existing.query_id or ""
        old = made_by if made_by in catalog.queries else None
        replaced = ReplacedTable(existing.topic, old, made_by)
        catalog = catalog if old is None else catalog.without_query(old)
    catalog = catalog.with_query(record, replacing=query_id in context.catalog.queries)
    return PlannedQuery(record, planned, catalog, replaced)


def _query_id(statement: s.CreateAs, existing: Source | None, given: ConfiguredStatement) -> str:
    """A new id, or the id of the query that continues with another plan."""
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
    return own if has_backfill(statement) else existing.query_id or ""


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
    """Refuse formats that cannot encode the result of the query. The error shows the query, because
    the statement has no list of columns to show."""
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


def _check_backfill_replace(statement: s.CreateAs, planned: Planned, catalog: Catalog) -> None:
    """Refuse a back-fill that replaces a stream, or a table that the query reads directly or
    indirectly."""
    if statement.kind == "STREAM":
        raise wordings.STREAM_RECOMPUTED(
            name=statement.name,
            hint="Leave BACKFILL out: the new definition then applies to new records. Or create"
            " another stream with BACKFILL.",
        )
    if statement.name in _all_sources(planned, catalog):
        raise wordings.TABLE_FROM_ITSELF(name=statement.name)


def _all_sources(planned: Planned, catalog: Catalog) -> set[str]:
    """All streams and tables that a query reads, directly or indirectly."""
    found: set[str] = set()
    left = [source.name for source in planned.sources]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += catalog.sources[name].origins if name in catalog.sources else ()
    return found


def _topic_effects(query_id: str, planned: Planned, context: PlanningContext) -> list[Effect]:
    """The effect that creates the topic of the sink, if it is missing. Raises StatementError if the
    topics of the sources do not fit together."""
    topics, effects = context.topics, list[Effect]()
    if topics is not None:
        if planned.sink_topic is not None:
            assert planned.sink is not None
            effects += missing_topic(
                sink_topic(planned, topics, context.environment.settings), topics
            )
            effects += registrations(planned.sink, context.environment, declared=False)
        effects += _dead_letter_topic(planned, context)
        topology_of(query_id, planned, context.environment)
    return effects


def _dead_letter_topic(planned: Planned, context: PlanningContext) -> Sequence[Effect]:
    """The effect that creates the dead letter topic of the statement's session, if it is missing.
    Raises StatementError for a topic that the query itself reads or writes."""
    topics, name = context.topics, effective(context.given.properties, DEAD_LETTERS)
    if topics is None or not name:
        return ()
    refuse_internal(context.environment.settings, name, "write to")
    sink = planned.sink_topic.name if planned.sink_topic is not None else None
    if name == sink or any(source.topic == name for source in planned.sources):
        raise wordings.DEAD_LETTERS_OF_ITSELF(
            topic=name, hint=f"SET '{DEAD_LETTERS}' to the name of another topic."
        )
    like = topics.topic(planned.sources[0].topic)
    partitions = like.partitions if like else 1
    replicas = like.replicas if like else AS_THE_CLUSTER
    return missing_topic(Topic(name, partitions, replicas, {"cleanup.policy": "delete"}), topics)


def _check_upgrade(planned_query: PlannedQuery, context: PlanningContext) -> None:
    """Refuse a plan that cannot continue from the state of the running one."""
    query_id, environment = planned_query.record.id, context.environment
    running = context.before.plans[query_id]
    check_upgrade(planned_query.record.sink or query_id, running.node, planned_query.planned.node)
    if environment.topics is not None:
        topics = context.before.topics.get(query_id, ())
        old, new = (
            state_tables(topology_of(query_id, plan, environment, topics), environment.functions)
            for plan in (running, planned_query.planned)
        )
        check_state(planned_query.record.sink, old, new)

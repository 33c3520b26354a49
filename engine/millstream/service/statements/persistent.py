"""CREATE … AS SELECT and INSERT INTO … SELECT: persistent queries taken on, or replaced."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.catalog.catalog import Catalog, QueryKind, QueryRecord
from millstream.catalog.properties import Form, read_properties
from millstream.catalog.source import Source
from millstream.formats.validate import check_formats
from millstream.model.errors import StatementError
from millstream.plan import define
from millstream.plan.build import Planned, plan_query
from millstream.plan.intermediates import check_intermediates
from millstream.plan.places import placed, placed_by_name
from millstream.plan.qualify import qualified
from millstream.plan.sinks import ExistingStream, NewSource
from millstream.plan.upgrade import check_upgrade
from millstream.service import queries, upgrades, wordings
from millstream.service.context import Context, check_replacing
from millstream.service.history.filled import changed, check_filled
from millstream.service.history.replaced import Replaced
from millstream.service.internal import refuse_internal
from millstream.service.results import Done
from millstream.service.statements import ending
from millstream_parser import print_statement
from millstream_parser import statements as s


@dataclass(frozen=True, slots=True)
class Draft:
    """What CREATE … AS SELECT comes to: nothing of it is made yet. `catalog`: with it.
    `replaced`: the table that another query is to make anew."""

    record: QueryRecord
    planned: Planned
    catalog: Catalog
    replaced: Replaced | None = None


def asks_for_past(statement: s.CreateAs) -> bool:
    """Whether the past of the query is to be computed by a job."""
    return any(name == "BACKFILL" for name, _ in statement.properties)


def create_as(statement: s.CreateAs, context: Context) -> tuple[Done, bool]:
    """CREATE [OR REPLACE] … AS SELECT; the flag is that of `definitions.apply`."""
    if statement.name in context.catalog.sources and statement.if_not_exists:
        noun = statement.kind.capitalize()
        return Done(
            f"{noun} {statement.name} already exists; nothing was changed", changed=False
        ), False
    made = draft(statement, context)
    if context.filled is not None and context.filled.replaced != made.replaced:
        raise changed(made.record.id)
    done = Done(f"Created query with ID {made.record.id}", made.record.id)
    if made.record.id in context.catalog.queries:
        _replace(context, made.catalog, made.record, made.planned)
        return done, False
    if context.replaying:
        _take_on(context, made.catalog, made.record, made.planned)
        if made.replaced is not None and made.replaced.query_id is not None:
            ending.forget(context.engine, made.replaced.query_id)
        return done, True
    topic = queries.make_sink_topic(context.engine, made.planned)
    try:
        _take_on(context, made.catalog, made.record, made.planned)
    except Exception:
        # Another instance may have found it, and made its own of it.
        if topic is not None and not context.engine.shared:
            context.engine.log.delete_topic(topic)
        raise
    return done, True


def draft(statement: s.CreateAs, context: Context) -> Draft:
    """Plan CREATE [OR REPLACE] … AS SELECT and check all that can be refused."""
    existing = context.catalog.sources.get(statement.name)
    check_replacing(statement, context)
    query_id = _query_id(statement, existing, context)
    target = NewSource(statement.kind, statement.name, statement.properties, context.text, query_id)
    planned = _planned(statement.query, target, context)
    assert planned.sink is not None
    origins = tuple(source.name for source in planned.sources)
    sink = replace(planned.sink, origins=origins)
    _check_formats(statement, planned, sink, context)
    define.check_new(sink, context.catalog, replacing=statement.or_replace)
    if not context.replaying:
        refuse_internal(context.engine, sink.topic, "write to")
    replacing = query_id in context.catalog.queries
    catalog = context.catalog.with_source(sink, replacing=existing is not None)
    record = _record(query_id, QueryKind.CREATE_AS, planned, sink.name, context)
    replaced = None
    if existing is not None and asks_for_past(statement):
        made_by = existing.query_id or ""
        before = made_by if made_by in context.catalog.queries else None
        replaced = Replaced(existing.topic, before, made_by)
        catalog = catalog if before is None else catalog.without_query(before)
    return Draft(record, planned, catalog.with_query(record, replacing=replacing), replaced)


def insert_into(statement: s.InsertInto, context: Context) -> Done:
    """INSERT INTO … SELECT."""
    given = read_properties(statement.properties, Form.INSERT)
    query_id = given.query_id or f"INSERTQUERY_{context.offset}"
    target = ExistingStream(statement.target, statement.properties)
    planned = _planned(statement.query, target, context)
    if not context.replaying:
        sink = context.catalog.source(statement.target)
        refuse_internal(context.engine, sink.topic, "write to")
    record = _record(query_id, QueryKind.INSERT, planned, statement.target, context)
    _take_on(context, context.catalog.with_query(record), record, planned)
    return Done(f"Created query with ID {query_id}", query_id)


def _check_formats(statement: s.CreateAs, planned: Planned, sink: Source, context: Context) -> None:
    """Refuse formats that cannot carry what the query makes; the message shows the query, as its
    columns are not written down in a list."""
    with placed(statement.query.span):
        check_intermediates(planned.node, planned.sources[0].value_format)
    try:
        with placed(statement.query.span), placed_by_name(statement.properties):
            check_formats(sink.schema, sink.key_format, sink.value_format)
    except StatementError as error:
        full = replace(statement, query=qualified(statement.query, context.catalog))
        error.detail = f"Statement: {print_statement(full)}"
        raise


def _query_id(statement: s.CreateAs, existing: Source | None, context: Context) -> str:
    """A new id, or that of the query which goes on with another plan."""
    own = f"C{statement.kind[0]}AS_{statement.name}_{context.offset}"
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


def _planned(query: s.Query, target: NewSource | ExistingStream, context: Context) -> Planned:
    return plan_query(
        query,
        context.catalog,
        target=target,
        properties=context.session.properties,
        functions=context.engine.functions,
        script=context.script,
    )


def _record(
    query_id: str, kind: QueryKind, planned: Planned, sink: str, context: Context
) -> QueryRecord:
    return QueryRecord(
        query_id,
        context.text,
        kind,
        tuple(source.name for source in planned.sources),
        sink,
        dict(context.session.properties),
    )


def _take_on(context: Context, catalog: Catalog, record: QueryRecord, planned: Planned) -> None:
    """Register a new query and, unless replaying, start it. The catalog changes last."""
    engine = context.engine
    engine.plans[record.id] = planned
    before, engine.catalog = engine.catalog, catalog
    if context.replaying:
        return
    with queries.undone(engine, record.id, before):
        if context.filled is None:
            queries.start(engine, record.id, fresh=True)
        else:
            check_filled(engine, record.id, context.filled)
            queries.make_topics(engine, record.id, fresh=True)


def _replace(context: Context, catalog: Catalog, record: QueryRecord, planned: Planned) -> None:
    """Let a query go on with another plan: its id, state and positions stay. All that can be
    refused is checked before the command is written; the running query ends after that."""
    engine = context.engine
    running = engine.plans.get(record.id)
    if running is not None:
        check_upgrade(record.sink or record.id, running.node, planned.node)
    if context.replaying:
        engine.catalog, engine.plans[record.id] = catalog, planned
        engine.ledger.replaced.add(record.id)
        return
    upgrade = upgrades.prepare(engine, record, running, planned)
    context.write()
    ending.stop(engine, record.id)
    engine.catalog, engine.plans[record.id] = catalog, planned
    engine.failed.pop(record.id, None)
    upgrades.adapt_state(engine, upgrade)
    queries.start(engine, record.id)

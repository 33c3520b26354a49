"""Statements that change the catalog: checked, applied, and the queries they start or end.

`apply` is used twice: when a statement is given, and when the command log is replayed. Replaying
starts nothing; `start_replayed` starts what is left at the end.
"""

from __future__ import annotations

from millstream.catalog.catalog import Catalog, QueryKind, QueryRecord
from millstream.catalog.properties import Form, read_properties
from millstream.catalog.source import Source
from millstream.formats.validate import check_formats
from millstream.log.log import AS_THE_CLUSTER, Topic
from millstream.model import refusals
from millstream.model.errors import MillstreamError
from millstream.model.nearest import topic_hint
from millstream.model.schema import SourceKind
from millstream.plan import define
from millstream.plan.places import placed_by_name
from millstream.service import leftovers, queries, upgrades
from millstream.service.command_log.commands import Write
from millstream.service.context import Context, check_replacing
from millstream.service.engine import Engine
from millstream.service.history.filled import Filled
from millstream.service.internal import refuse_internal
from millstream.service.results import Done
from millstream.service.session import Session
from millstream.service.statements import control, ending, persistent
from millstream.service.text import Piece
from millstream_parser import statements as s


def unwritten(*, deleting: Topic | None = None) -> None:
    """Writes nothing: the statement comes from the command log."""


def apply(
    piece: Piece,
    engine: Engine,
    session: Session,
    offset: int,
    *,
    replaying: bool = False,
    write: Write = unwritten,
    filled: Filled | None = None,
) -> tuple[Done, bool]:
    """Apply a definition; the flag says whether it has yet to go to the command log. Those whose
    effects cannot be undone have written it themselves, through `write`. A query whose past is
    `filled` has yet to begin, once that is done."""
    context = Context(piece.text, piece.script, engine, session, offset, replaying, write, filled)
    statement = piece.statement
    match statement:
        case s.CreateSource():
            return _create_source(statement, context)
        case s.CreateAs():
            return persistent.create_as(statement, context)
        case s.InsertInto():
            return persistent.insert_into(statement, context), True
        case s.DropSource():
            return _drop(statement, context)
        case s.AlterSource():
            return _alter(statement, context), True
        case s.CreateType():
            return _create_type(statement, context)
        case s.DropType():
            return _drop_type(statement, context)
        case s.ControlQuery():
            done = control.control_query(statement, engine, replaying=replaying, write=write)
            return done, False
    raise TypeError(f"{type(statement).__name__} is no definition")


def undo(engine: Engine, before: Catalog, *, written: bool = False) -> None:
    """Take back a definition that could not be written to the command log; `written`: nobody
    knows whether it was, so that what the service needs then has to stay."""
    for query_id in engine.catalog.queries.keys() - before.queries.keys():
        if written:
            ending.drop_here(engine, query_id, commit=False)
        else:
            ending.take_back(engine, query_id)
    engine.catalog = before


def start_replayed(engine: Engine) -> None:
    """Start the queries that the command log left running."""
    stood = engine.ledger.standing
    for query_id in engine.catalog.queries:
        if stood is not None and stood.hold.query_id == query_id:
            continue
        try:
            if query_id in engine.ledger.replaced:
                upgrades.adapt(engine, query_id)
            queries.start(engine, query_id)
        except MillstreamError as error:
            # One query that cannot run is no reason to refuse the file and all the others.
            engine.failed[query_id] = str(error)


def _create_source(statement: s.CreateSource, context: Context) -> tuple[Done, bool]:
    noun = statement.kind.capitalize()
    existing = context.catalog.sources.get(statement.name)
    if existing is not None and statement.if_not_exists:
        return Done(
            f"{noun} {statement.name} already exists; nothing was changed", changed=False
        ), False
    check_replacing(statement, context)
    source = define.create_source(
        statement, context.catalog, context.session.properties, text=context.text
    )
    with placed_by_name(statement.properties, statement.elements):
        check_formats(source.schema, source.key_format, source.value_format)
    catalog = context.catalog.with_source(source, replacing=statement.or_replace)
    if not context.replaying:
        source_topic(statement, source, context.engine)
    before, context.engine.catalog = context.catalog, catalog
    if source.read_only and source.kind is SourceKind.TABLE:
        _materialise(source, context, before)
    return Done(f"{noun} created"), True


def source_topic(statement: s.CreateSource, source: Source, engine: Engine) -> None:
    """Make the topic of a source, or check that it is as the statement says."""
    properties = read_properties(statement.properties, Form.CREATE)
    partitions, topic = properties.partitions, engine.log.topic(source.topic)
    if topic is None:
        if partitions is None:
            raise refusals.UNKNOWN_TOPIC(
                topic=source.topic,
                hint=topic_hint(
                    source.topic,
                    (known.name for known in engine.log.topics()),
                    "Add PARTITIONS=n to the WITH clause to have it made.",
                ),
            )
        refuse_internal(engine, source.topic, "create")
        policy = "compact" if source.kind is SourceKind.TABLE else "delete"
        config = {"cleanup.policy": policy}
        wanted = Topic(source.topic, partitions, properties.replicas or AS_THE_CLUSTER, config)
        queries.make_topic(engine, wanted)
    elif partitions not in (None, topic.partitions):
        raise refusals.TOPIC_DIFFERS(topic=source.topic, there=topic.partitions, wanted=partitions)


def _materialise(source: Source, context: Context, before: Catalog) -> None:
    """CREATE SOURCE TABLE keeps its content, so that it can be asked."""
    query_id = f"CST_{source.name}_{context.offset}"
    record = QueryRecord(query_id, context.text, QueryKind.SOURCE_TABLE, (source.name,))
    queries.register_source_table(context.engine, source, record)
    if not context.replaying:
        with queries.undone(context.engine, query_id, before):
            queries.start(context.engine, query_id)


def _drop(statement: s.DropSource, context: Context) -> tuple[Done, bool]:
    dropped = define.drop(statement, context.catalog)
    if dropped.catalog is context.catalog:
        return Done(f"Source {statement.name} does not exist.", changed=False), False
    engine = context.engine
    deleting = None if context.replaying else dropped.delete_topic
    if deleting is not None:
        refuse_internal(engine, deleting, "delete")
    doomed = engine.log.topic(deleting) if deleting else None
    context.write(deleting=doomed)
    before, engine.catalog = engine.catalog, dropped.catalog
    for query_id in dropped.terminate:
        ending.end(engine, query_id, replaying=context.replaying)
    if doomed is not None:
        leftovers.delete_topic(engine, doomed.name, doomed.id)
    topic = before.sources[statement.name].topic
    return Done(f"Source {statement.name} (topic: {topic}) was dropped."), False


def _alter(statement: s.AlterSource, context: Context) -> Done:
    altered = define.alter_source(statement, context.catalog)
    check_formats(altered.schema, altered.key_format, altered.value_format)
    context.engine.catalog = context.catalog.with_source(altered, replacing=True)
    return Done(f"{statement.kind.capitalize()} altered")


def _create_type(statement: s.CreateType, context: Context) -> tuple[Done, bool]:
    catalog = define.create_type(statement, context.catalog)
    if catalog is context.catalog:
        return Done(
            f"Type {statement.name} already exists; nothing was changed", changed=False
        ), False
    context.engine.catalog = catalog
    made = catalog.types[statement.name]
    return Done(f"Registered custom type with name '{statement.name}' and SQL type {made}"), True


def _drop_type(statement: s.DropType, context: Context) -> tuple[Done, bool]:
    catalog = define.drop_type(statement, context.catalog)
    if catalog is context.catalog:
        return Done(f"Type '{statement.name}' does not exist", changed=False), False
    context.engine.catalog = catalog
    return Done(f"Dropped type '{statement.name}'"), True

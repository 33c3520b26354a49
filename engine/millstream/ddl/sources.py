"""Plans CREATE, ALTER and DROP of streams, tables and types."""

from __future__ import annotations

from millstream.catalog.catalog import QueryKind, QueryRecord
from millstream.catalog.formats import INFERRING
from millstream.catalog.source import Source
from millstream.ddl import wordings
from millstream.ddl.effects import (
    Change,
    DeleteSubjects,
    DeleteTopic,
    Effect,
    EndQuery,
    StartQuery,
    nothing_to_do,
)
from millstream.ddl.environment import ConfiguredStatement, PlanningContext
from millstream.ddl.registrations import registrations
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.ddl.topics import missing_topic, refuse_internal, source_topic
from millstream.formats.validate import check_formats
from millstream.model.expressions import ColumnRef
from millstream.model.schema import SourceKind
from millstream.plan import define
from millstream.plan.build import Planned
from millstream.plan.nodes import Deliver, Project, Read
from millstream.plan.places import placed_by_name
from millstream_parser import statements as s


def create_source(statement: s.CreateSource, context: PlanningContext) -> Change:
    """Plan CREATE [OR REPLACE] [SOURCE] STREAM or TABLE with columns."""
    noun, before, given = statement.kind.capitalize(), context.before, context.given
    if statement.name in before.catalog.sources and statement.if_not_exists:
        return nothing_to_do(before, f"{noun} {statement.name} already exists; nothing was changed")
    check_replacing(statement, given)
    source = define.create_source(statement, before.catalog, given.properties, text=given.text)
    with placed_by_name(statement.properties, statement.elements):
        check_formats(source.schema, source.key_format, source.value_format)
    catalog = before.catalog.with_source(source, replacing=statement.or_replace)
    after, effects = before.with_catalog(catalog), list[Effect]()
    if context.topics is not None:
        topic = source_topic(statement, source, context.topics, context.environment.settings)
        effects += missing_topic(topic, context.topics)
        with placed_by_name(statement.properties, statement.elements):
            effects += registrations(source, context.environment, declared=True)
    if source.read_only and source.kind is SourceKind.TABLE:
        query_id = f"CST_{source.name}_{given.number}"
        after = _materialised(query_id, source, given, after)
        effects.append(StartQuery(query_id))
    return Change(after, f"{noun} created", tuple(effects))


def drop_source(statement: s.DropSource, context: PlanningContext) -> Change:
    """Plan DROP STREAM or TABLE. It ends the query that writes the source, and may delete the
    topic."""
    before, topics = context.before, context.topics
    dropped = define.drop(statement, before.catalog)
    if dropped.catalog is before.catalog:
        return nothing_to_do(before, f"Source {statement.name} does not exist.")
    effects: list[Effect] = [
        EndQuery(query_id, before.topics.get(query_id, ())) for query_id in dropped.terminate
    ]
    if dropped.delete_topic is not None and topics is not None:
        refuse_internal(context.environment.settings, dropped.delete_topic, "delete")
        deleted = topics.topic(dropped.delete_topic)
        effects += [] if deleted is None else [DeleteTopic(deleted.name, deleted.id)]
        forms = before.catalog.sources[statement.name]
        if {forms.key_format.name, forms.value_format.name} & INFERRING:
            effects.append(DeleteSubjects(dropped.delete_topic))
    topic = before.catalog.sources[statement.name].topic
    return Change(
        before.with_catalog(dropped.catalog),
        f"Source {statement.name} (topic: {topic}) was dropped.",
        tuple(effects),
    )


def alter_source(statement: s.AlterSource, before: CatalogSnapshot) -> Change:
    """Plan ALTER STREAM or TABLE … ADD COLUMN."""
    altered = define.alter_source(statement, before.catalog)
    check_formats(altered.schema, altered.key_format, altered.value_format)
    catalog = before.catalog.with_source(altered, replacing=True)
    return Change(before.with_catalog(catalog), f"{statement.kind.capitalize()} altered")


def create_type(statement: s.CreateType, before: CatalogSnapshot) -> Change:
    """Plan CREATE TYPE."""
    name, catalog = statement.name, define.create_type(statement, before.catalog)
    if catalog is before.catalog:
        return nothing_to_do(before, f"Type {name} already exists; nothing was changed")
    message = f"Registered custom type with name '{name}' and SQL type {catalog.types[name]}"
    return Change(before.with_catalog(catalog), message)


def drop_type(statement: s.DropType, before: CatalogSnapshot) -> Change:
    """Plan DROP TYPE."""
    catalog = define.drop_type(statement, before.catalog)
    if catalog is before.catalog:
        return nothing_to_do(before, f"Type '{statement.name}' does not exist")
    return Change(before.with_catalog(catalog), f"Dropped type '{statement.name}'")


def check_replacing(statement: s.CreateSource | s.CreateAs, given: ConfiguredStatement) -> None:
    """Refuse OR REPLACE if the session has it disabled."""
    if statement.or_replace and not given.flag("ksql.create.or.replace.enabled"):
        raise wordings.REPLACING_DISABLED(
            kind=statement.kind.lower(),
            statement=statement.name,
            hint="SET 'ksql.create.or.replace.enabled' = 'true' allows it.",
        )


def _materialised(
    query_id: str, source: Source, given: ConfiguredStatement, after: CatalogSnapshot
) -> CatalogSnapshot:
    """Add the internal query that materialises a SOURCE TABLE, so that pull queries can read it."""
    columns = source.schema.columns
    read = Read(source, "", source.schema, source.schema.names, SourceKind.TABLE, materialised=True)
    expressions = tuple(ColumnRef(column.name, column.type) for column in columns)
    node = Deliver(Project(read, expressions, source.schema), None)
    record = QueryRecord(query_id, given.text, QueryKind.SOURCE_TABLE, (source.name,))
    return after.with_catalog(
        after.catalog.with_query(record), {query_id: Planned(node, (source,))}
    )

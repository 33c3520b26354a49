"""CREATE, ALTER and DROP of streams, tables and types: from statement to catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from millstream.catalog import wordings as catalog_wordings
from millstream.catalog.catalog import Catalog, already_exists
from millstream.catalog.formats import INFERRING
from millstream.catalog.properties import (
    DEFAULT_VALUE_FORMAT,
    Form,
    Properties,
    check_retention,
    format_names,
    make_format,
    read_properties,
    wrapping,
)
from millstream.catalog.rules import Drop, check_alter, check_replace, check_source, drop_source
from millstream.catalog.source import Source, TimestampColumn
from millstream.model import refusals
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.model.types import SqlType
from millstream.plan import wordings
from millstream.plan.features import check_header_columns
from millstream.plan.places import placed, placed_by_name
from millstream.plan.types import sql_type
from millstream_parser import statements
from millstream_parser.statements import ColumnRole


def create_source(
    statement: statements.CreateSource,
    catalog: Catalog,
    properties: Mapping[str, str],
    *,
    text: str = "",
) -> Source:
    """The stream or table that a CREATE with columns describes.

    `properties` are the session's settings (default formats), `text` the statement for DESCRIBE.
    The formats room checks whether the formats support the columns. An existing source of the name
    raises ConflictError, or with OR REPLACE must be compatible; the caller handles IF NOT EXISTS
    first.
    """
    with placed_by_name(statement.properties, statement.elements):
        return _created(statement, catalog, properties, text)


def _created(
    statement: statements.CreateSource, catalog: Catalog, properties: Mapping[str, str], text: str
) -> Source:
    kind = SourceKind[statement.kind]
    _refuse_replacing_read_only(statement, catalog)
    given = read_properties(statement.properties, Form.CREATE)
    if given.topic is None:
        raise wordings.TOPIC_PROPERTY_MISSING()
    key_format, value_format = format_names(given, properties)
    if value_format is None:
        raise wordings.VALUE_FORMAT_MISSING(
            hint=f"Either provide one or set a default via the '{DEFAULT_VALUE_FORMAT}' config."
        )
    schema = declared_schema(statement.elements, catalog.types)
    check_header_columns(statement.elements, properties)
    written_key = make_format(key_format, given.key_settings)
    written_value = make_format(value_format, given.value_settings)
    _check_inference(schema, kind, key_format, value_format)
    wrap = wrapping(given.wrap, properties, value_format, len(schema.value))
    source = Source(
        name=statement.name,
        kind=kind,
        schema=schema,
        topic=given.topic,
        key_format=written_key,
        value_format=replace(written_value, wrap=wrap),
        window=given.window,
        timestamp=_timestamp(given),
        partition_column=given.partition_column,
        read_only=statement.read_only,
        statement=text,
    )
    check_source(source)
    check_retention(given, kind, given.window)
    if source.read_only and source.kind is SourceKind.TABLE and source.window is not None:
        raise wordings.WINDOWED_SOURCE_TABLE(hint="Leave WINDOW_TYPE out.")
    _check_name(source, catalog, replacing=statement.or_replace)
    return source


def alter_source(statement: statements.AlterSource, catalog: Catalog) -> Source:
    """The stream or table with the columns of ALTER … ADD COLUMN."""
    source = catalog.source(statement.name)
    added = tuple(Column(name, sql_type(tree, catalog.types)) for name, tree in statement.columns)
    return check_alter(source, SourceKind[statement.kind], added)


def drop(statement: statements.DropSource, catalog: Catalog) -> Drop:
    """The effects of DROP STREAM or DROP TABLE."""
    return drop_source(
        catalog,
        SourceKind[statement.kind],
        statement.name,
        if_exists=statement.if_exists,
        delete_topic=statement.delete_topic,
    )


def create_type(statement: statements.CreateType, catalog: Catalog) -> Catalog:
    """The catalog with the type of CREATE TYPE."""
    if statement.if_not_exists and statement.name in catalog.types:
        return catalog
    return catalog.with_type(statement.name, sql_type(statement.type, catalog.types))


def drop_type(statement: statements.DropType, catalog: Catalog) -> Catalog:
    """The catalog without the type of DROP TYPE."""
    if statement.if_exists and statement.name not in catalog.types:
        return catalog
    return catalog.without_type(statement.name)


def check_new(source: Source, catalog: Catalog, *, replacing: bool) -> None:
    """Refuse a sink of CREATE … AS whose name is taken, or that cannot replace the existing
    source."""
    _check_name(source, catalog, replacing=replacing)


def _check_name(source: Source, catalog: Catalog, *, replacing: bool) -> None:
    taken = catalog.sources.get(source.name)
    if taken is None:
        return
    if not replacing:
        raise already_exists(source.kind, source.name, taken.kind)
    check_replace(taken, source, catalog)


def _refuse_replacing_read_only(statement: statements.CreateSource, catalog: Catalog) -> None:
    taken = catalog.sources.get(statement.name)
    if statement.or_replace and (statement.read_only or (taken is not None and taken.read_only)):
        noun = statement.kind.lower()
        raise catalog_wordings.REPLACED_READ_ONLY(noun=noun, name=statement.name)


def declared_schema(elements: Iterable[statements.Element], types: Mapping[str, SqlType]) -> Schema:
    """The columns of a list of elements, keys first; `types` are the custom ones."""
    return Schema.of(_column(element, types) for element in elements)


def _column(element: statements.Element, types: Mapping[str, SqlType]) -> Column:
    with placed(element.span):
        kind = sql_type(element.type, types)
    return Column(element.name, kind, _ROLES[element.role], element.header)


_ROLES = {
    ColumnRole.VALUE: Role.VALUE,
    ColumnRole.KEY: Role.KEY,
    ColumnRole.PRIMARY_KEY: Role.KEY,
    ColumnRole.HEADERS: Role.HEADERS,
    ColumnRole.HEADER: Role.HEADERS,
}


def _check_inference(schema: Schema, kind: SourceKind, key_format: str, value_format: str) -> None:
    """Refuse missing columns that no schema registry can provide."""
    if kind is SourceKind.TABLE and not schema.key and key_format not in INFERRING:
        raise refusals.NO_PRIMARY_KEY()
    if not schema.columns:
        raise wordings.COLUMNS_MISSING(
            hint=f"The {value_format} format cannot tell them by itself."
        )


def _timestamp(given: Properties) -> TimestampColumn | None:
    if given.timestamp is None:
        return None
    return TimestampColumn(given.timestamp, given.timestamp_format)

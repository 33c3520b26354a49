"""Columns that a statement leaves out, and its format finds in the schema registry.

They become part of the statement, and so of the command: what a registry says later does not change
a stream or table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from millstream.catalog import wordings as catalog_wordings
from millstream.catalog.formats import INFERRING, SCHEMA_ID, SCHEMA_NAME
from millstream.catalog.properties import Form, Properties, format_names, read_properties
from millstream.catalog.source import Format, Source
from millstream.ddl import wordings
from millstream.ddl.environment import ConfiguredStatement
from millstream.formats.codec import is_wrapped
from millstream.formats.registered import subject_of
from millstream.formats.registered_rows import with_imports
from millstream.formats.schema_error import SchemaError
from millstream.formats.schema_formats import SCHEMA_FORMATS
from millstream.model.schema import Column, Role, Schema
from millstream.model.schema_text import Schemas, SchemaText
from millstream.model.types import Array, Field, Map, SqlType, Struct
from millstream.plan import wordings as plan_wordings
from millstream.plan.places import placed_by_name
from millstream_parser import parse_type, print_statement
from millstream_parser import statements as s

ROWKEY, ROWVAL = "ROWKEY", "ROWVAL"
_KEYS: tuple[s.ColumnRole, ...] = (s.ColumnRole.KEY, s.ColumnRole.PRIMARY_KEY)
_VALUES: tuple[s.ColumnRole, ...] = (s.ColumnRole.VALUE,)


def with_columns(given: ConfiguredStatement, schemas: Schemas | None) -> ConfiguredStatement:
    """The statement with the columns that it leaves out, if it is a CREATE whose formats have their
    schemas in the registry. Raises StatementError if there is no schema, or none with columns."""
    statement = given.statement
    if not isinstance(statement, s.CreateSource):
        return given
    with placed_by_name(statement.properties):
        properties = read_properties(statement.properties, Form.CREATE)
        if properties.topic is None:
            return given
        found = [
            *_elements(Role.KEY, statement, properties, given.properties, schemas),
            *_elements(Role.VALUE, statement, properties, given.properties, schemas),
        ]
    if not found:
        return given
    keys = [each for each in found if each.role in _KEYS]
    values = [each for each in found if each.role not in _KEYS]
    own = [each for each in statement.elements if each.role in _KEYS]
    others = [each for each in statement.elements if each.role not in _KEYS]
    whole = replace(statement, elements=(*own, *keys, *values, *others))
    return replace(given, statement=whole, text=print_statement(whole))


def check_given_schemas(source: Source, schemas: Schemas) -> None:
    """Refuse the id of a schema whose first columns are not those of the source: the same names
    and types in the same order."""
    for role, form in ((Role.KEY, source.key_format), (Role.VALUE, source.value_format)):
        if SCHEMA_ID not in form.properties or form.name not in SCHEMA_FORMATS:
            continue
        side = _Side(role, source.topic, form.name, form.properties, form.wrap)
        own = source.schema.key if role is Role.KEY else source.schema.value
        kind = _type_of(side, schemas)
        if is_wrapped(form, role, len(own)):
            has = _fields(kind, side)
        else:
            # What is not in a record has no name there.
            has = [(column.name, kind) for column in own]
        wrong = [
            column
            for place, column in enumerate(own)
            if [(column.name, column.type)] != list(has[place : place + 1])
        ]
        if wrong:
            raise wordings.SCHEMA_OF_OTHER_COLUMNS(
                side=role.value,
                columns=f"[{Schema(tuple(wrong))}]",
                schema=f"[{Schema(tuple(Column(name, kind) for name, kind in has))}]",
            )


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of the records of a topic. `format`: its name, in a format of the registry."""

    role: Role
    topic: str
    format: str
    settings: Mapping[str, str]
    wrap: bool | None

    @property
    def plural(self) -> str:
        """As in messages."""
        return "keys" if self.role is Role.KEY else "values"


def _elements(
    role: Role,
    statement: s.CreateSource,
    properties: Properties,
    session: Mapping[str, str],
    schemas: Schemas | None,
) -> list[s.Element]:
    """The columns of one side; none if the statement has some, or its format no schemas."""
    assert properties.topic is not None
    key_format, value_format = format_names(properties, session)
    if role is Role.KEY:
        name, settings, declared = key_format, properties.key_settings, _KEYS
    else:
        name, settings, declared = value_format or "", properties.value_settings, _VALUES
    columns_declared = any(each.role in declared for each in statement.elements)
    if SCHEMA_ID in settings:
        part = role.name
        if name not in INFERRING:
            raise plan_wordings.INFERENCE_IMPOSSIBLE(part=part, name=name)
        if columns_declared:
            raise plan_wordings.COLUMNS_AND_SCHEMA_ID(part=part)
    if name not in INFERRING or columns_declared:
        return []
    if schemas is None:
        raise catalog_wordings.REGISTRY_NEEDED(what=f"The format {name}", code="E-NO-REGISTRY")
    side = _Side(role, properties.topic, name, settings, properties.wrap)
    kind = _type_of(side, schemas)
    columns = _columns(kind, side)
    if SCHEMA_ID not in settings:
        columns = [(name.upper(), _upper(each)) for name, each in columns]
    if role is Role.VALUE:
        place = s.ColumnRole.VALUE
    else:
        place = s.ColumnRole.PRIMARY_KEY if statement.kind == "TABLE" else s.ColumnRole.KEY
    return [s.Element(name, parse_type(str(each)), place) for name, each in columns]


def _type_of(side: _Side, schemas: Schemas) -> SqlType:
    """The type of what the schema of a side describes."""
    subject, given = subject_of(side.topic, side.role.value), side.settings.get(SCHEMA_ID)
    text: SchemaText | None
    if given is not None:
        subject += f", id {given}"
        text = schemas.by_id(int(given)) if schemas.has(None, int(given)) else None
    else:
        latest = schemas.latest(subject)
        text = None if latest is None else latest.schema
    if text is None:
        raise wordings.SCHEMA_MISSING(
            side=side.plural,
            topic=side.topic,
            subject=subject,
            hint="Register one, or list the columns in the statement.",
        )
    form = SCHEMA_FORMATS[side.format]
    if text.kind != form.kind:
        raise wordings.SCHEMA_OF_OTHER_FORMAT(
            side=side.plural, topic=side.topic, kind=text.kind, format=side.format
        )
    try:
        kind = form.type_of(with_imports(schemas, text, side.settings.get(SCHEMA_NAME, "")))
    except SchemaError as error:
        raise wordings.SCHEMA_UNREADABLE(
            side=side.plural, topic=side.topic, reason=error
        ) from error
    if kind is None:
        raise wordings.SCHEMA_WITHOUT_COLUMNS(side=side.plural, topic=side.topic)
    return kind


def _columns(kind: SqlType, side: _Side) -> Sequence[tuple[str, SqlType]]:
    """The columns of a side: the fields of its record, or one for all of it."""
    if not is_wrapped(Format(side.format, side.wrap), side.role, 1):
        return [(ROWKEY if side.role is Role.KEY else ROWVAL, kind)]
    return _fields(kind, side)


def _fields(kind: SqlType, side: _Side) -> Sequence[tuple[str, SqlType]]:
    """The fields of the record of a side."""
    if isinstance(kind, Struct):
        return [(field.name, field.type) for field in kind.fields]
    raise wordings.SCHEMA_NOT_WRAPPED(
        side=side.plural,
        topic=side.topic,
        type=kind,
        hint="WRAP_SINGLE_VALUE=false makes it the column ROWVAL.",
    )


def _upper(kind: SqlType) -> SqlType:
    match kind:
        case Array(element):
            return Array(_upper(element))
        case Map(key, member):
            return Map(key, _upper(member))
        case Struct(fields):
            return Struct(tuple(Field(each.name.upper(), _upper(each.type)) for each in fields))
        case _:
            return kind

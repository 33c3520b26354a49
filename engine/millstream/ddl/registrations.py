"""The schemas that a statement registers."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.catalog import wordings
from millstream.catalog.formats import SCHEMA_ID
from millstream.catalog.source import Format, Source
from millstream.ddl.effects import RegisterSchema
from millstream.ddl.environment import Environment
from millstream.ddl.inference import check_given_schemas
from millstream.formats.codec import is_wrapped
from millstream.formats.registered import subject_of
from millstream.formats.schema_formats import SCHEMA_FORMATS, schema_text
from millstream.model.schema import Column, Role


def registrations(
    source: Source, environment: Environment, *, declared: bool
) -> tuple[RegisterSchema, ...]:
    """The schemas of a stream or table that are registered. `declared`: it is one over a topic that
    others write, so only for a subject that has none yet. Raises StatementError for columns that a
    format cannot have, and where there is no registry."""
    schemas = environment.schemas
    if schemas is None:
        for form in (source.key_format, source.value_format):
            if form.name in SCHEMA_FORMATS:
                what = f"The format {form.name}"
                raise wordings.REGISTRY_NEEDED(what=what, code="E-NO-REGISTRY")
        return ()
    found = tuple(of_sides(source))
    if declared:
        return tuple(each for each in found if schemas.latest(each.subject) is None)
    check_given_schemas(source, schemas)
    return found


def of_sides(source: Source) -> Iterator[RegisterSchema]:
    """The schemas of the keys and the values. Raises StatementError for columns that a format
    cannot have."""
    sides: tuple[tuple[Role, Format, tuple[Column, ...]], ...] = (
        (Role.KEY, source.key_format, source.schema.key),
        (Role.VALUE, source.value_format, source.schema.value),
    )
    for role, form, columns in sides:
        if form.name not in SCHEMA_FORMATS or not columns or SCHEMA_ID in form.properties:
            continue
        text = schema_text(
            form.name,
            tuple((column.name, column.type) for column in columns),
            source.name,
            form.properties,
            is_key=role is Role.KEY,
            wrapped=is_wrapped(form, role, len(columns)),
        )
        yield RegisterSchema(subject_of(source.topic, role.value), text)

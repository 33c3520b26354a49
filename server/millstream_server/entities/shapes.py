"""Schemas as JSON objects."""

from __future__ import annotations

from typing import Any

from millstream.catalog.source import Source
from millstream.model import types as t
from millstream.model.schema import Column, Role
from millstream.model.types import SqlType


def schema_object(kind: SqlType) -> dict[str, Any]:
    """A type."""
    made: dict[str, Any] = {"type": "", "fields": None, "memberSchema": None}
    match kind:
        case t.Decimal(precision, scale):
            made["type"] = "DECIMAL"
            made["parameters"] = {"precision": precision, "scale": scale}
        case t.Array(element):
            made["type"], made["memberSchema"] = "ARRAY", schema_object(element)
        case t.Map(_, value):
            made["type"], made["memberSchema"] = "MAP", schema_object(value)
        case t.Struct(fields):
            made["type"] = "STRUCT"
            made["fields"] = [
                {"name": field.name, "schema": schema_object(field.type)} for field in fields
            ]
        case _:
            made["type"] = str(kind)
    return made


def field_object(column: Column) -> dict[str, Any]:
    """A column of a source or a query."""
    made: dict[str, Any] = {"name": column.name, "schema": schema_object(column.type)}
    match column.role:
        case Role.KEY:
            made["type"] = "KEY"
        case Role.HEADERS:
            made["type"] = "HEADER"
            if column.header is not None:
                made["headerKey"] = column.header
    return made


def fields_of(source: Source) -> list[dict[str, Any]]:
    """The columns of a source."""
    return [field_object(column) for column in source.schema.columns]

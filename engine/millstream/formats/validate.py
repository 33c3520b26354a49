"""Checks that formats support the columns of a statement, before anything is created."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.catalog import wordings
from millstream.catalog.formats import CAPABILITIES
from millstream.catalog.source import Format
from millstream.formats.delimited import DELIMITER_NAMES
from millstream.model import refusals
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import STRING, Array, Decimal, Map, SqlType, Struct, contains_map


def check_delimiter(value: str, side: Role) -> None:
    """Refuse a KEY_DELIMITER or VALUE_DELIMITER that is not one visible character or a name."""
    name = f"{side.name}_DELIMITER"
    if value.strip() == "":
        raise refusals.EMPTY_DELIMITER(property=name)
    if len(value) > 1 and value.upper() not in DELIMITER_NAMES:
        raise refusals.LONG_DELIMITER(property=name, delimiter=value)


def check_formats(schema: Schema, key_format: Format, value_format: Format) -> None:
    """Refuse formats that do not support the columns of a source or sink, or their settings."""
    for side, format_ in ((Role.KEY, key_format), (Role.VALUE, value_format)):
        name, able = format_.name, CAPABILITIES[format_.name]
        columns = schema.key if side is Role.KEY else schema.value
        unknown = sorted(set(format_.properties) - able.settings)
        if unknown:
            raise refusals.FOREIGN_SETTINGS(format=name, configs=", ".join(unknown))
        if "delimiter" in format_.properties:
            check_delimiter(format_.properties["delimiter"], side)
        if side is Role.KEY:
            _check_maps_in_key(columns)
        else:
            _check_wrap(name, format_.wrap, len(columns))
        _check_columns(name, side, columns, format_.wrap)


def supports_type(name: str, sql_type: SqlType) -> bool:
    """Whether the format supports a column of the type."""
    return type_name(sql_type) in CAPABILITIES[name].types


def type_name(sql_type: SqlType) -> str:
    """The name of a type without its parameters."""
    match sql_type:
        case Decimal():
            return "DECIMAL"
        case Array():
            return "ARRAY"
        case Map():
            return "MAP"
        case Struct():
            return "STRUCT"
    return str(sql_type)


def _check_wrap(name: str, wrap: bool | None, columns: int) -> None:
    if wrap is None:
        return
    if columns > 1:
        raise refusals.WRAPPED_COLUMNS()
    if wrap not in CAPABILITIES[name].wraps:
        raise wordings.FORMAT_AND_WRAPPING(name=name, wrap=str(wrap).lower())


def _check_maps_in_key(columns: Sequence[Column]) -> None:
    for column in columns:
        if contains_map(column.type):
            raise refusals.MAP_IN_KEY(column=column.name, type=column.type)


def _check_columns(name: str, side: Role, columns: Sequence[Column], wrap: bool | None) -> None:
    listed = f"[{', '.join(str(Schema((column,))) for column in columns)}]"
    reason = _objection(name, columns, listed)
    if reason is None:
        return
    features = "" if wrap is None else "WRAP_SINGLES" if wrap else "UNWRAP_SINGLES"
    raise wordings.FORMAT_AND_SCHEMA(
        side=side.value.capitalize(), name=name, listed=listed, features=features, reason=reason
    )


def _objection(name: str, columns: Sequence[Column], listed: str) -> str | None:
    able = CAPABILITIES[name]
    if not able.types:
        only = f"The '{name}' format can only be used when no columns are defined."
        return f"{only} Got: {listed}" if columns else None
    if not able.many_columns and len(columns) > 1:
        return f"The '{name}' format only supports a single field. Got: {listed}"
    for column in columns:
        if not supports_type(name, column.type):
            kind = type_name(column.type)
            return f"The '{name}' format does not support type '{kind}', column: `{column.name}`"
        if _has_odd_map(column.type):
            return able.maps.format(format=name)
    return None


def _has_odd_map(sql_type: SqlType) -> bool:
    match sql_type:
        case Map(key, value):
            return key is not STRING or _has_odd_map(value)
        case Array(element):
            return _has_odd_map(element)
        case Struct(fields):
            return any(_has_odd_map(field.type) for field in fields)
    return False

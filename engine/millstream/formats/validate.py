"""What each format can carry: refusing a statement before anything is created."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from millstream.catalog.source import Format
from millstream.formats.delimited import DELIMITER_NAMES
from millstream.model import refusals
from millstream.model.errors import StatementError
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import (
    BIGINT,
    BYTES,
    DOUBLE,
    INTEGER,
    STRING,
    Array,
    Decimal,
    Map,
    SqlType,
    Struct,
    contains_map,
)

_NESTED = frozenset(("ARRAY", "MAP", "STRUCT"))
_ALL_NAMES = (
    _NESTED
    | frozenset(
        ("BOOLEAN", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "BYTES", "DATE", "TIME")
    )
    | {"TIMESTAMP"}
)


@dataclass(frozen=True, slots=True)
class Capability:
    """What a format can do. `wraps` are the values WRAP_SINGLE_VALUE may have with it."""

    types: frozenset[str] = _ALL_NAMES
    wraps: frozenset[bool] = frozenset((True, False))
    settings: frozenset[str] = frozenset()
    many_columns: bool = True
    registry: bool = False
    joins: bool = True


_NOTHING: frozenset[bool] = frozenset()
_KAFKA_TYPES = frozenset(str(sql_type) for sql_type in (INTEGER, BIGINT, DOUBLE, STRING, BYTES))
CAPABILITIES: Mapping[str, Capability] = {
    "JSON": Capability(),
    "JSON_SR": Capability(settings=frozenset(("fullSchemaName",)), registry=True),
    "AVRO": Capability(settings=frozenset(("fullSchemaName",)), registry=True),
    "PROTOBUF": Capability(
        wraps=frozenset((True,)),
        settings=frozenset(("fullSchemaName", "nullableRepresentation")),
        registry=True,
    ),
    "PROTOBUF_NOSR": Capability(
        wraps=frozenset((True,)), settings=frozenset(("nullableRepresentation",))
    ),
    "DELIMITED": Capability(
        _ALL_NAMES - _NESTED, frozenset((False,)), settings=frozenset(("delimiter",))
    ),
    "KAFKA": Capability(_KAFKA_TYPES, frozenset((False,)), many_columns=False, joins=False),
    "NONE": Capability(frozenset(), _NOTHING, joins=False),
}


def format_name(name: str) -> str:
    """The name as it is stored (upper case); StatementError when there is no such format."""
    if name.upper() not in CAPABILITIES:
        usable = ", ".join(key for key, value in CAPABILITIES.items() if not value.registry)
        raise StatementError(f"Unknown format: {name}", hint=f"Use one of {usable}.")
    return name.upper()


def check_delimiter(value: str, side: Role) -> None:
    """Refuse a KEY_DELIMITER or VALUE_DELIMITER that is not one visible character or a name."""
    name = f"{side.name}_DELIMITER"
    if value.strip() == "":
        raise refusals.EMPTY_DELIMITER(property=name)
    if len(value) > 1 and value.upper() not in DELIMITER_NAMES:
        raise refusals.LONG_DELIMITER(property=name, delimiter=value)


def check_formats(schema: Schema, key_format: Format, value_format: Format) -> None:
    """Refuse formats that cannot carry the columns of a source or sink, or their settings."""
    for side, format_ in ((Role.KEY, key_format), (Role.VALUE, value_format)):
        name = format_name(format_.name)
        able = CAPABILITIES[name]
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
        if able.registry:
            raise StatementError(
                f"The format {name} needs a Schema Registry, which this engine does not use",
                hint="Use JSON, DELIMITED, KAFKA or PROTOBUF_NOSR.",
            )


def check_operation(sources: Iterable[tuple[str, Format]], operation: str) -> None:
    """Refuse JOIN or GROUP BY on sources whose value format cannot be used with it."""
    by_format: dict[str, list[str]] = {}
    for source, format_ in sources:
        if not CAPABILITIES[format_.name].joins:
            by_format.setdefault(format_.name, []).append(source)
    for name, names in by_format.items():
        raise refusals.VALUE_FORMAT_CLAUSE(sources=", ".join(names), format=name, clause=operation)


def supports_type(name: str, sql_type: SqlType) -> bool:
    """Whether the format can carry a column of the type."""
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
        raise StatementError(
            f"Format '{name}' does not support 'WRAP_SINGLE_VALUE' set to '{str(wrap).lower()}'."
        )


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
    raise StatementError(
        f"{side.value.capitalize()} format does not support schema.\n"
        f"format: {name}\n"
        f"schema: Persistence{{columns={listed}, features=[{features}]}}\n"
        f"reason: {reason}"
    )


def _objection(name: str, columns: Sequence[Column], listed: str) -> str | None:
    able = CAPABILITIES[name]
    if name == "NONE":
        only = "The 'NONE' format can only be used when no columns are defined."
        return f"{only} Got: {listed}" if columns else None
    if not able.many_columns and len(columns) > 1:
        return f"The '{name}' format only supports a single field. Got: {listed}"
    for column in columns:
        if not supports_type(name, column.type):
            kind = type_name(column.type)
            return f"The '{name}' format does not support type '{kind}', column: `{column.name}`"
        if _has_odd_map(column.type):
            word = " format" if name.startswith("PROTOBUF") else ""
            return f"{name}{word} only supports MAP types with STRING keys"
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

"""Type names of the text -> types of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from millstream.model.nearest import did_you_mean
from millstream.model.other_dialects import type_hint
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    Field,
    Map,
    SqlType,
    Struct,
)
from millstream.plan import wordings

_Type = exp.DataType.Type
_PRIMITIVES: dict[object, SqlType] = {
    _Type.BOOLEAN: BOOLEAN,
    _Type.INT: INTEGER,
    _Type.BIGINT: BIGINT,
    _Type.DOUBLE: DOUBLE,
    _Type.VARCHAR: STRING,
    _Type.TEXT: STRING,
    _Type.VARBINARY: BYTES,
    _Type.DATE: DATE,
    _Type.TIME: TIME,
    _Type.TIMESTAMP: TIMESTAMP,
}
_NAMES = (
    *("BOOLEAN", "INT", "INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "VARCHAR", "BYTES"),
    *("DATE", "TIME", "TIMESTAMP", "ARRAY", "MAP", "STRUCT"),
)
_LISTED = "SHOW TYPES lists the custom types; CREATE TYPE makes one."


def sql_type(tree: exp.DataType, custom_types: Mapping[str, SqlType]) -> SqlType:
    """The type that a parser's tree denotes; custom types are expanded.

    Raises StatementError for an unknown name, impossible DECIMAL digits and repeated fields.
    """
    kind = tree.this
    parts = tree.expressions
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]
    if kind == _Type.ARRAY:
        return Array(sql_type(parts[0], custom_types))
    if kind == _Type.MAP:
        return Map(sql_type(parts[0], custom_types), sql_type(parts[1], custom_types))
    if kind == _Type.STRUCT:
        return struct_of([_field(part, custom_types) for part in parts])
    if kind == _Type.DECIMAL:
        return _decimal([int(part.name) for part in parts])
    name = str(tree.args.get("kind") or tree)
    if name in custom_types:
        return custom_types[name]
    hint = type_hint(name) or did_you_mean(name, (*_NAMES, *custom_types), _LISTED)
    raise wordings.UNKNOWN_TYPE(name=name, hint=hint)


def struct_of(fields: Sequence[Field]) -> Struct:
    """The struct of these fields; StatementError for a name that occurs twice."""
    by_name: dict[str, Field] = {}
    for field in fields:
        first = by_name.setdefault(field.name, field)
        if first is not field:
            raise wordings.FIELDS_TWICE(field=_shown(first), again=_shown(field))
    return Struct(tuple(fields))


def _shown(field: Field) -> str:
    return f"`{field.name}` {field.type}"


def _field(tree: exp.Expression, custom_types: Mapping[str, SqlType]) -> Field:
    kind = tree.args["kind"]
    assert isinstance(kind, exp.DataType)
    return Field(tree.name, sql_type(kind, custom_types))


def _decimal(digits: list[int]) -> Decimal:
    precision, scale = (*digits, 0, 0)[:2]
    if precision < 1:
        example = "DECIMAL(10, 2) has ten digits, two of them behind the point."
        raise wordings.DECIMAL_PRECISION(precision=precision, scale=scale, hint=example)
    if not 0 <= scale <= precision:
        raise wordings.DECIMAL_SCALE(precision=precision, scale=scale)
    return Decimal(precision, scale)

"""Values of Python in the columns of a source. They are converted like the constants of INSERT
VALUES: `1` fits a DOUBLE, `"2024-02-29"` a DATE, and `1.5` no INTEGER."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.catalog.source import Source
from millstream.model import types as t
from millstream.model.errors import StatementError
from millstream.model.expressions import Literal
from millstream.model.nearest import did_you_mean
from millstream.model.physical import arrow_type
from millstream.model.schema import Column
from millstream.plan.literals import literal_type, number_literal
from millstream.queries.registry import QueryRegistry
from millstream.statements.constants import constant
from millstream.statements.inserting import insertable_schema

ROWTIME = "ROWTIME"


def row_values(source: Source, value: object, key: object) -> dict[str, Any]:
    """The values of a row by the names of their columns. `value`: a mapping of names to values, a
    tuple of the values of all columns, or of those without the key if `key` is given, or the value
    of the only column. `key`: the key column, or a tuple or mapping of several; None if it is in
    `value`. A mapping may have ROWTIME."""
    found = {} if key is None else _key_values(source, key)
    match value:
        case Mapping():
            more = _named(source, value)
        case tuple():
            columns = source.schema.value if found else insertable_schema(source).columns
            more = _in_order(source, columns, value)
        case _:
            more = _only_column(source, value)
    twice = sorted(found.keys() & more.keys())
    if twice:
        raise StatementError(
            f"The key column {twice[0]} of {source.name} is given twice, by `key` and in the row"
        )
    return found | more


def _key_values(source: Source, key: object) -> dict[str, Any]:
    columns = source.schema.key
    if not columns:
        raise StatementError(
            f"{source.name} has no key column, so its records cannot be given the key {key!r}",
            hint="Leave `key` out, or declare a column as KEY.",
        )
    if isinstance(key, Mapping) and not isinstance(columns[0].type, t.Map | t.Struct):
        return _named(source, key, columns)
    if isinstance(key, tuple):
        return _in_order(source, columns, key)
    if len(columns) > 1:
        names = ", ".join(column.name for column in columns)
        raise StatementError(
            f"The key of {source.name} has {len(columns)} columns, and {key!r} is one value",
            hint=f"Give a tuple of {names}.",
        )
    return {columns[0].name: key}


def _named(
    source: Source, row: Mapping[Any, Any], among: tuple[Column, ...] | None = None
) -> dict[str, Any]:
    """Names are those of SQL: a name that is not a column's counts in upper case."""
    names = [column.name for column in among or insertable_schema(source).columns]
    known = {*names, *(() if among else (ROWTIME,))}
    found: dict[str, Any] = {}
    for given, value in row.items():
        name = str(given)
        name = name if name in known else name.upper()
        if name not in known:
            listed = f"The columns are {', '.join(names)}."
            raise StatementError(
                f"{source.name} has no column {given} to put {value!r} into",
                hint=did_you_mean(name, names, listed),
            )
        if name in found:
            raise StatementError(f"The column {name} of {source.name} is given twice in one row")
        found[name] = value
    return found


def _in_order(
    source: Source, columns: tuple[Column, ...], values: tuple[Any, ...]
) -> dict[str, Any]:
    if len(values) != len(columns):
        names = ", ".join(column.name for column in columns)
        raise StatementError(
            f"A tuple of {len(values)} values cannot be written to {source.name}:"
            f" {len(columns)} columns are expected",
            hint=f"The columns are {names}.",
        )
    return dict(zip((column.name for column in columns), values, strict=True))


def _only_column(source: Source, value: object) -> dict[str, Any]:
    columns = source.schema.value
    if len(columns) != 1:
        names = ", ".join(column.name for column in insertable_schema(source).columns)
        raise StatementError(
            f"{value!r} is not a row of {source.name}",
            hint=f"Give a dict or a tuple of {names}; lists are lists of rows, bytes are records.",
        )
    return {columns[0].name: value}


def column_array(value: object, column: Column, registry: QueryRegistry) -> pa.Array:
    """A value as an array of one element of the column's type. Raises StatementError if it does not
    fit."""
    value = value.item() if isinstance(value, np.generic) else value
    literal = _literal(value, column)
    if literal is not None and value is not None:
        return constant(literal, column, registry)
    return pa.array([_plain(value, column, registry)], arrow_type(column.type))


def _literal(value: object, column: Column) -> Literal | None:
    """The constant of SQL that a value is; None if Arrow has to convert the value."""
    match value:
        case bool():
            return Literal(value, t.BOOLEAN)
        case int():
            return number_literal(str(value))
        case float():
            return Literal(value, t.DOUBLE)
        case decimal.Decimal():
            if not value.is_finite():
                raise _misfit(value, column)
            return Literal(value, literal_type(value))
        case str():
            return Literal(value, t.STRING)
    return None


def _plain(value: object, column: Column, registry: QueryRegistry) -> Any:
    value = value.item() if isinstance(value, np.generic) else value

    def part(element: object, name: str, kind: t.SqlType) -> Any:
        return _plain(element, Column(name, kind), registry)

    name = column.name
    match value, column.type:
        case None, _:
            return None
        case ((list() | tuple()), t.Array(kind)):
            return [part(item, f"{name}[{n + 1}]", kind) for n, item in enumerate(value)]
        case Mapping(), t.Map(key_kind, kind):
            return [
                (part(key, f"{name} (key)", key_kind), part(item, f"{name}[{key!r}]", kind))
                for key, item in value.items()
            ]
        case Mapping(), t.Struct(fields):
            fitting = _fields(value, column, fields)
            return {
                field.name: part(fitting.get(field.name), f"{name}->{field.name}", field.type)
                for field in fields
            }
        case datetime.datetime(), t.TIMESTAMP:
            return _utc(value)
        case datetime.date(), t.DATE if not isinstance(value, datetime.datetime):
            return value
        case datetime.time(), t.TIME:
            return value.replace(microsecond=value.microsecond // 1000 * 1000)
        case bytes(), t.BYTES:
            return value
    literal = _literal(value, column)
    if literal is None:
        raise _misfit(value, column)
    return constant(literal, column, registry)[0].as_py()


def _fields(
    value: Mapping[Any, Any], column: Column, fields: tuple[t.Field, ...]
) -> dict[str, Any]:
    known = {field.name for field in fields}
    found = {name if name in known else str(name).upper(): item for name, item in value.items()}
    unknown = sorted(found.keys() - known)
    if unknown:
        raise StatementError(
            f"{column.name} has no field {unknown[0]}",
            hint=did_you_mean(unknown[0], known, f"Its type is {column.type}."),
        )
    return found


def _utc(value: datetime.datetime) -> datetime.datetime:
    """Without a time zone, as the columns have it; a time without one is UTC."""
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


def _misfit(value: object, column: Column) -> StatementError:
    return StatementError(
        f"The {type(value).__name__} {value!r} does not fit the column {column.name},"
        f" which is a {column.type}"
    )

"""Rows of Python in the columns of a source. Their values are converted as `Database.insert` does:
`1` fits a DOUBLE, `"2024-02-29"` a DATE, and `1.5` no INTEGER."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from millstream.catalog.source import Source
from millstream.model import types as t
from millstream.model.errors import StatementError
from millstream.model.nearest import did_you_mean
from millstream.model.schema import Column
from millstream.statements.column_values import Conversion, UnfitError, misfit
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


def column_array(values: Sequence[Any], column: Column, convert: Conversion) -> pa.Array:
    """Values of rows as an array of the column's type. Raises StatementError for the first one
    that does not fit."""
    try:
        return convert.column(values, column)
    except UnfitError:
        for value in values:
            try:
                convert.column([value], column)
            except UnfitError as failure:
                raise misfit(value, column, failure.reason) from None
        raise

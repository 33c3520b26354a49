"""Converts columns of values that a program inserts to the types of a source's columns.

Each value is converted by the rule for a literal of INSERT INTO … VALUES: an integer is an INTEGER
or a BIGINT, a float a DOUBLE, a text a STRING. A whole column is converted at once.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from millstream.formats.payload import one_array
from millstream.model.errors import StatementError
from millstream.model.physical import arrow_type
from millstream.model.schema import Column
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
    Map,
    SqlType,
    Struct,
)
from millstream.operators.casts import convert
from millstream.operators.sql import identifier
from millstream.operators.udfs import register_expressions
from millstream.plan.assignable import assignable, constant_assignable
from millstream.plan.literals import literal_type, text_as_boolean
from millstream.queries.registry import QueryRegistry
from millstream.statements import wordings

_VALUES = "v"
_SHOWN_MAX = 80
_WHOLE = "A pandas column of whole numbers with missing values has floats: use astype('Int64')."
_HINTS = {
    ("DOUBLE", "INTEGER"): _WHOLE,
    ("DOUBLE", "BIGINT"): _WHOLE,
    ("TIMESTAMP", "DATE"): "Give dates: a column of pandas as column.dt.date.",
}
_LISTS = (list, tuple, np.ndarray)
_LEAVES: tuple[tuple[type | tuple[type, ...], pa.DataType], ...] = (
    ((bool, np.bool_), pa.bool_()),
    ((int, np.integer), pa.int64()),
    ((float, np.floating), pa.float64()),
    (str, pa.string()),
    ((bytes, bytearray, memoryview), pa.binary()),
    (datetime.datetime, pa.timestamp("us")),
    (datetime.date, pa.date32()),
    (datetime.time, pa.time64("us")),
)
"""The classes of Python values with an Arrow type. A bool is an int, and a datetime a date: the
order matters."""


class UnfitError(Exception):
    """A value of a column does not fit the column's type. `reason` says more, if anything does."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Conversion:
    """Converts values on a connection, which has the functions that `convert` calls. `rowtime`: a
    time or the text of one is converted to milliseconds."""

    con: duckdb.DuckDBPyConnection
    rowtime: bool = False

    def column(self, values: pa.Array | Sequence[Any], column: Column) -> pa.Array:
        """The values of a column in its Arrow type; ROWTIME also takes times. Raises UnfitError if
        one of them does not fit."""
        try:
            if column.name == "ROWTIME":
                return replace(self, rowtime=True)._typed(values, BIGINT)
            return self._typed(values, column.type)
        except (duckdb.Error, pa.ArrowException, OverflowError) as error:
            raise UnfitError("A value cannot be converted to the type.") from error
        except UnicodeEncodeError as error:
            raise UnfitError("It has half a character (a lone surrogate).") from error

    def _typed(
        self, values: pa.Array | Sequence[Any], target: SqlType, nested: bool = False
    ) -> pa.Array:
        if isinstance(values, pa.Array):
            return self._from_arrow(_plain(values), target, nested)
        return self._from_python(values, target, nested)

    def _from_arrow(self, array: pa.Array, target: SqlType, nested: bool) -> pa.Array:
        kind = array.type
        if kinds.is_null(kind) or array.null_count == len(array):
            return pa.nulls(len(array), arrow_type(target))
        match target:
            case Array(element) if _is_list(kind):
                return self._list(array, element)
            case Map(key, value) if kinds.is_map(kind):
                whole = one_array(array)
                keys = self._typed(whole.keys, key, nested=True)
                items = self._typed(whole.items, value, nested=True)
                return _map(target, whole.offsets, keys, items, whole.is_null())
            case Struct() if kinds.is_struct(kind):
                members = dict(zip(_names(kind), array.flatten(), strict=True))
                return self._struct(target, members, len(array), array.is_null())
        if kinds.is_nested(kind):
            raise UnfitError
        source = _sql_type(kind)
        if source is None:
            raise UnfitError(f"Arrow's type {kind} has no values of SQL.")
        return self._leaf(array, source, target, nested)

    def _leaf(self, array: pa.Array, source: SqlType, target: SqlType, nested: bool) -> pa.Array:
        """Values of a type without parts."""
        if source == DOUBLE and not _all_finite(array):
            raise UnfitError("SQL has no literal of NaN or of infinity.")
        if self.rowtime and source in (STRING, TIMESTAMP):
            moments = array if source == TIMESTAMP else self._converted(array, source, TIMESTAMP)
            return (
                pc.floor_temporal(moments, unit="millisecond")
                .cast(pa.timestamp("ms"))
                .cast(pa.int64())
            )
        if source == BIGINT and target == INTEGER:
            return array.cast(pa.int32())
        if isinstance(source, Decimal) and isinstance(target, Decimal):
            return _decimals(array, source, target)
        if source == target:
            return array.cast(arrow_type(target))
        if source == BIGINT and target == DOUBLE:
            return array.cast(pa.float64(), safe=False)
        if source == STRING and target == BOOLEAN and not nested:
            return _booleans(array)
        # A literal of a time is a CAST, which does not convert as freely as other literals.
        timed = source in (DATE, TIME, TIMESTAMP) and not nested
        if timed or not constant_assignable(source, target):
            raise UnfitError
        return self._converted(array, source, target)

    def _converted(self, array: pa.Array, source: SqlType, target: SqlType) -> pa.Array:
        text = convert(identifier(_VALUES), source, target, exact=False)
        rows = self.con.from_arrow(pa.table({_VALUES: array}))
        found = rows.project(f"{text} AS {_VALUES}").to_arrow_table()
        return one_array(found[_VALUES]).cast(arrow_type(target))

    def _list(self, array: pa.Array, element: SqlType) -> pa.Array:
        absent = array.is_null()
        lengths = pc.if_else(absent, 0, pc.fill_null(pc.list_value_length(array), 0))
        items = self._typed(pc.list_flatten(array), element, nested=True)
        return _list_array(Array(element), _offsets(lengths.to_numpy()), items, absent)

    def _struct(
        self,
        target: Struct,
        members: Mapping[str, pa.Array | Sequence[Any]],
        rows: int,
        absent: pa.Array,
    ) -> pa.Array:
        """Structs of the fields that the target has; other members are ignored, as in INSERT."""
        kind = arrow_type(target)
        if not target.fields:
            return pa.array([None if each else {} for each in absent.to_pylist()], kind)
        arrays = []
        for field in target.fields:
            name = _member(field.name, members)
            arrays.append(
                pa.nulls(rows, arrow_type(field.type))
                if name is None
                else self._typed(members[name], field.type, nested=True)
            )
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=absent)

    def _from_python(self, values: Sequence[Any], target: SqlType, nested: bool) -> pa.Array:
        """Values of several classes are converted apart, each by the rule of its own."""
        found = {kind: _class_of(kind) for kind in set(map(type, values)) if not _is_missing(kind)}
        groups = list(dict.fromkeys(found.values()))
        if not groups:
            return pa.nulls(len(values), arrow_type(target))
        if len(groups) == 1:
            whole = values if found.keys() | {type(None)} >= set(map(type, values)) else None
            present = whole or [None if _is_missing(type(each)) else each for each in values]
            return self._of_class(groups[0], present, target, nested)
        parts, places = [], []
        for group in (*groups, None):
            chosen = [n for n, each in enumerate(values) if found.get(type(each)) is group]
            part = [values[n] for n in chosen]
            places += chosen
            parts.append(
                pa.nulls(len(part), arrow_type(target))
                if group is None
                else self._of_class(group, part, target, nested)
            )
        order = np.empty(len(values), np.int64)
        order[places] = np.arange(len(values))
        return pa.concat_arrays(parts).take(pa.array(order))

    def _of_class(
        self, group: pa.DataType | type, values: Sequence[Any], target: SqlType, nested: bool
    ) -> pa.Array:
        if isinstance(group, pa.DataType):
            return self._from_arrow(_plain(pa.array(values, group)), target, nested)
        if group is decimal.Decimal:
            return _python_decimals(values, target)
        absent = pa.array([each is None for each in values], pa.bool_())
        present = [each for each in values if each is not None]
        match target:
            case Array(element) if group is list:
                lengths = np.array([0 if each is None else len(each) for each in values], np.int64)
                items = [item for each in present for item in each]
                typed = self._typed(items, element, nested=True)
                return _list_array(target, _offsets(lengths), typed, absent)
            case Map(key, value) if group is dict:
                lengths = np.array([0 if each is None else len(each) for each in values], np.int64)
                keys = self._typed([k for each in present for k in each], key, nested=True)
                items = [item for each in present for item in each.values()]
                typed = self._typed(items, value, nested=True)
                return _map(target, _offsets(lengths), keys, typed, absent)
            case Struct() if group is dict:
                names = dict.fromkeys(name for each in present for name in each)
                members = {
                    str(name): [None if each is None else each.get(name) for each in values]
                    for name in names
                }
                return self._struct(target, members, len(values), absent)
        raise UnfitError


@contextmanager
def conversion(registry: QueryRegistry) -> Iterator[Conversion]:
    """Conversion on a connection of its own, which is closed at the end."""
    cursor = registry.store.cursor()
    try:
        register_expressions(cursor, [], registry.functions, registry.store.functions)
        yield Conversion(cursor)
    finally:
        cursor.close()


def misfit(value: Any, column: Column, reason: str) -> StatementError:
    """The error about a value that does not fit a column. `reason`: that of the UnfitError."""
    kind, text = _described(value)
    return wordings.VALUE_TYPE(
        target=column.type,
        column=column.name,
        type=kind,
        value=text,
        detail=reason,
        hint=_HINTS.get((kind, str(column.type)), ""),
    )


def _described(value: Any) -> tuple[str, str]:
    """The type of a value and its text."""
    match value:
        case bool() | np.bool_():
            name = BOOLEAN.value
        case int() | np.integer():
            whole = "NUMBER" if not -(2**63) <= value < 2**63 else BIGINT.value
            name = INTEGER.value if -(2**31) <= value < 2**31 else whole
        case float() | np.floating():
            name = DOUBLE.value
        case str():
            name = STRING.value
        case decimal.Decimal():
            name = "DECIMAL"
        case bytes() | bytearray():
            name = BYTES.value
        case datetime.datetime():
            name = TIMESTAMP.value
        case datetime.date():
            name = DATE.value
        case datetime.time():
            name = TIME.value
        case list() | tuple() | np.ndarray():
            name = "ARRAY"
        case Mapping():
            name = "MAP or STRUCT"
        case _:
            name = type(value).__name__
    text = str(value).encode(errors="backslashreplace").decode()
    return name, text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _plain(array: pa.Array) -> pa.Array:
    """The array in one of the types that `arrow_type` gives, where values are the same: without
    dictionaries, views, offsets of 64 bits; times in microseconds, without those below a
    millisecond, which the dialect does not have, and in UTC."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if kinds.is_dictionary(kind):
        return _plain(array.dictionary_decode())
    if kinds.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(array))
    if kinds.is_integer(kind):
        return array.cast(pa.int64())
    if kinds.is_floating(kind):
        return array.cast(pa.float64())
    if kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return array.cast(pa.string())
    if kinds.is_large_binary(kind) or kinds.is_binary_view(kind) or _is_fixed_binary(kind):
        return array.cast(pa.binary())
    if kinds.is_date64(kind):
        return array.cast(pa.date32())
    if kinds.is_time(kind):
        whole = array.cast(pa.time64("us"), safe=False).cast(pa.int64())
        return pc.multiply(pc.divide(whole, 1000), 1000).cast(pa.time64("us"))
    if kinds.is_timestamp(kind):
        whole = pc.floor_temporal(array.cast(pa.timestamp(kind.unit)), unit="millisecond")
        return whole.cast(pa.timestamp("us"), safe=kind.unit == "s")
    return array


def _is_fixed_binary(kind: pa.DataType) -> bool:
    return bool(kinds.is_fixed_size_binary(kind)) and not kinds.is_decimal(kind)


_SQL_TYPES = {
    pa.bool_(): BOOLEAN,
    pa.int64(): BIGINT,
    pa.float64(): DOUBLE,
    pa.string(): STRING,
    pa.binary(): BYTES,
    pa.date32(): DATE,
    pa.time64("us"): TIME,
    pa.timestamp("us"): TIMESTAMP,
}


def _sql_type(kind: pa.DataType) -> SqlType | None:
    """The type of the values of a plain column without parts."""
    if kinds.is_decimal(kind):
        return Decimal(kind.precision, kind.scale)
    return _SQL_TYPES.get(kind)


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        kinds.is_list(kind)
        or kinds.is_large_list(kind)
        or kinds.is_fixed_size_list(kind)
        or kinds.is_list_view(kind)
    )


def _names(kind: pa.DataType) -> list[str]:
    return [field.name for field in kind]


def _is_missing(kind: type) -> bool:
    """Whether it is the class of a value that stands for NULL: of None, or of pandas' NA and
    NaT."""
    return kind is type(None) or kind.__name__ in ("NAType", "NaTType")


def _class_of(kind: type) -> pa.DataType | type:
    """What is done alike: the Arrow type of values of a class; `Decimal`, `list` and `dict` for
    those that are looked at one by one."""
    for classes, arrow in _LEAVES:
        if issubclass(kind, classes):
            return arrow
    if issubclass(kind, decimal.Decimal):
        return decimal.Decimal
    if issubclass(kind, _LISTS):
        return list
    if issubclass(kind, Mapping):
        return dict
    raise UnfitError(f"Values of the class {kind.__name__} have no type of SQL.")


def _member(field: str, names: Mapping[str, Any]) -> str | None:
    """The member for a field of a STRUCT: of exactly its name, else as SQL folds names."""
    if field in names:
        return field
    return next((name for name in names if name.upper() == field), None)


def _all_finite(array: pa.Array) -> bool:
    return bool(pc.all(pc.is_finite(array)).as_py())


def _booleans(array: pa.Array) -> pa.Array:
    """Texts as `text_as_boolean` reads them."""
    coded = array.dictionary_encode()
    try:
        known = [text_as_boolean(text).value for text in coded.dictionary.to_pylist()]
    except StatementError as error:
        raise UnfitError from error
    return pa.array(known, pa.bool_()).take(coded.indices)


def _decimals(array: pa.Array, source: Decimal, target: Decimal) -> pa.Array:
    """A column of a type that fits is converted; of others, each value has to fit that has no more
    digits after its point than the target."""
    if not assignable(source, target) and (
        source.scale > target.scale or target.scale >= target.precision
    ):
        raise UnfitError
    return array.cast(arrow_type(target))


def _python_decimals(values: Sequence[decimal.Decimal | None], target: SqlType) -> pa.Array:
    """Decimals as the literals of their texts, trailing zeros included."""
    present = [each for each in values if each is not None]
    if not all(each.is_finite() for each in present):
        raise UnfitError("SQL has no literal of NaN or of infinity.")
    plain = [each if each is None else decimal.Decimal(format(each, "f")) for each in values]
    if isinstance(target, Decimal):
        if not all(each is None or assignable(literal_type(each), target) for each in plain):
            raise UnfitError
        return pa.array(plain, arrow_type(target))
    if target == DOUBLE:
        return pa.array([each if each is None else float(each) for each in plain], pa.float64())
    if target == STRING:
        texts = [None if each is None else format(each if each else abs(each)) for each in plain]
        return pa.array(texts, pa.string())
    raise UnfitError


def _offsets(lengths: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())


def _list_array(kind: Array, offsets: pa.Array, items: pa.Array, absent: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(offsets, items, type=arrow_type(kind), mask=absent)


def _map(
    kind: Map, offsets: pa.Array, keys: pa.Array, items: pa.Array, absent: pa.Array
) -> pa.Array:
    if keys.null_count:
        raise UnfitError("A key of a map is never NULL.")
    return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type(kind), mask=absent)

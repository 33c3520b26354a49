"""Reads the rows that a program inserts: Arrow, pandas and polars tables, dicts and tuples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.types as kinds

from millstream.functions.annotations import fields_of
from millstream.statements import wordings


class ArrowStream(Protocol):
    """A table that other libraries read without a copy: of pyarrow, polars, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a stream of Arrow's C interface."""


class ArrowBatch(Protocol):
    """The same for one batch of rows: a pyarrow.RecordBatch, for example."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """The schema and the rows in Arrow's C interface."""


class DataFrame(Protocol):
    """A DataFrame of pandas."""

    @property
    def iloc(self) -> Any:
        """Its rows by number."""

    @property
    def columns(self) -> Any:
        """The names of its columns."""


class DataclassRow(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class StructRow(Protocol):
    """A msgspec.Struct."""

    __struct_fields__: ClassVar[tuple[str, ...]]


class ModelRow(Protocol):
    """A model of pydantic."""

    __pydantic_fields__: ClassVar[dict[str, Any]]


RowValues = Mapping[str, Any] | Sequence[Any] | DataclassRow | StructRow | ModelRow
"""One row: values by column name, or in the order of the columns; or an object with a field for
each."""
Insertable = ArrowStream | ArrowBatch | DataFrame | Iterable[RowValues]
"""The rows that `Database.insert` takes."""


@dataclass(frozen=True, slots=True)
class RowTable:
    """Rows by column. `names` is empty if the columns are those of the source, in its order."""

    names: tuple[str, ...]
    columns: tuple[pa.ChunkedArray | Sequence[Any], ...]
    rows: int

    def slice(self, column: int, start: int, rows: int) -> pa.Array | Sequence[Any]:
        """Some values of a column."""
        values = self.columns[column]
        if not isinstance(values, pa.ChunkedArray):
            return values[start : start + rows]
        piece = values.slice(start, rows)
        return piece.chunk(0) if piece.num_chunks == 1 else pa.concat_arrays(piece.chunks)

    def value(self, column: int, row: int) -> Any:
        """One value as Python's."""
        found = self.columns[column][row]
        if not isinstance(found, pa.Scalar):
            return found
        try:
            return found.as_py()
        except (ValueError, OverflowError):
            return str(found)  # Python has no such time.


def read_rows(data: Any, columns: Sequence[str] | None, width: int, before: int = 0) -> RowTable:
    """The rows of a program's data. `columns`: those to take of named data, and the order of
    unnamed ones; `width`: how many columns a tuple has without them; `before`: how many rows to
    count before the first one. Raises StatementError if it cannot be read as rows."""
    if isinstance(columns, str):
        raise wordings.ROWS_REFUSED(given=repr(columns), hint=f"Write columns=[{columns!r}].")
    if isinstance(data, pa.Table):
        return _of_table(data, columns)
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "iloc"):
        return _of_pandas(data, columns)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        try:
            return _of_table(pa.table(data), columns)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise _no_rows(data, str(error)) from error
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        raise _no_rows(data)
    rows = list(data)
    if rows and not isinstance(rows[0], Mapping | Sequence):
        rows = [_plain_row(row) for row in rows]
    return _of_rows(rows, columns, width, before)


def _no_rows(data: Any, detail: str = "") -> Exception:
    kind = type(data).__name__
    hint = (
        "Give a pyarrow or polars table, a pandas DataFrame, or a list of dicts, tuples or"
        " dataclasses."
        if not isinstance(data, Mapping)
        else "Give one row as [row], and columns as pyarrow.table(columns)."
    )
    return wordings.ROWS_UNREADABLE(kind=kind, detail=detail, hint=hint)


def _of_table(table: pa.Table, columns: Sequence[str] | None) -> RowTable:
    names = _chosen(table.column_names, columns)
    found = tuple(_without_views(table.column(name)) for name in names)
    return RowTable(names, found, table.num_rows)


def _without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in types that all of Arrow's functions take; polars has texts as views."""
    kind = _viewless(column.type)
    if kind == column.type:
        return column
    if kinds.is_dictionary(column.type):
        texts = (chunk.dictionary.cast(kind).take(chunk.indices) for chunk in column.chunks)
        return pa.chunked_array(list(texts), kind)
    return column.cast(kind)


def _viewless(kind: pa.DataType) -> pa.DataType:
    if kinds.is_string_view(kind):
        return pa.string()
    if kinds.is_binary_view(kind):
        return pa.binary()
    if kinds.is_dictionary(kind):
        return _viewless(kind.value_type)
    if kinds.is_struct(kind):
        return pa.struct([field.with_type(_viewless(field.type)) for field in kind])
    if kinds.is_map(kind):
        return pa.map_(_viewless(kind.key_type), _viewless(kind.item_type))
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        item = kind.value_field.with_type(_viewless(kind.value_type))
        return pa.list_(item) if kinds.is_list(kind) else pa.large_list(item)
    return kind


def _of_pandas(frame: Any, columns: Sequence[str] | None) -> RowTable:
    """The columns of a DataFrame, without its index. NaN, NaT and NA are missing values."""
    if not hasattr(frame, "columns"):
        raise _no_rows(frame)
    by_name = {str(name): number for number, name in enumerate(frame.columns)}
    names = _chosen([str(name) for name in frame.columns], columns)
    found: list[pa.ChunkedArray | list[Any]] = []
    for name in names:
        series = frame.iloc[:, by_name[name]]
        if series.dtype == object:
            found.append(series.where(series.notna(), None).tolist())
            continue
        try:
            array = pa.Array.from_pandas(series)
        except (pa.ArrowException, TypeError) as error:
            raise wordings.ROWS_REFUSED(given=f"the column {name}", detail=str(error)) from error
        found.append(array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array]))
    return RowTable(names, tuple(found), len(frame))


def _chosen(names: Sequence[str], columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns of named data to take."""
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise wordings.ROWS_REFUSED(given=f"two columns with the name {min(twice)}")
    if columns is None:
        return tuple(names)
    missing = [name for name in columns if name not in names]
    if missing:
        raise wordings.ROWS_REFUSED(
            given=f"columns={list(columns)!r}",
            detail=f"There is no {missing[0]!r} in the data, whose columns are {', '.join(names)}.",
        )
    return tuple(columns)


def _of_rows(rows: list[Any], columns: Sequence[str] | None, width: int, before: int) -> RowTable:
    if all(isinstance(row, Mapping) for row in rows):
        return _of_dicts(rows, columns)
    wanted = width if columns is None else len(columns)
    named = isinstance(rows[0], Mapping)
    for number, row in enumerate(rows, before + 1):
        if isinstance(row, Mapping) and named:
            continue
        if named or not isinstance(row, Sequence) or isinstance(row, str | bytes):
            kind = type(row).__name__
            flaw = f", of type {kind}: all rows have to be tuples, or all of them dicts"
            raise wordings.ROW_UNREADABLE(row=number, flaw=flaw)
        if len(row) != wanted:
            flaw = f": it has {len(row)} values for {wanted} columns"
            raise wordings.ROW_UNREADABLE(row=number, flaw=flaw)
    return RowTable(
        tuple(columns or ()), tuple(zip(*rows, strict=True)) or ((),) * wanted, len(rows)
    )


def _plain_row(row: Any) -> Any:
    """A row as a dict, if it is an instance of a class with fields; any other one as it is."""
    if isinstance(row, Mapping | Sequence) or (names := fields_of(type(row))) is None:
        return row
    return {name: _plain(getattr(row, name)) for name in names}


def _plain(value: Any) -> Any:
    match value:
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(item) for key, item in value.items()}
    names = fields_of(type(value))
    if names is None:
        return value
    return {name.upper(): _plain(getattr(value, name)) for name in names}


def _of_dicts(rows: list[Mapping[str, Any]], columns: Sequence[str] | None) -> RowTable:
    """The columns that any row names; they are NULL where a row does not have them."""
    if columns is None:
        columns = list(dict.fromkeys(name for row in rows for name in row))
    for name in columns:
        if not isinstance(name, str):
            raise wordings.ROWS_REFUSED(given=f"the column {name!r}", hint="Names are texts.")
    values = tuple([row.get(name) for row in rows] for name in columns)
    return RowTable(tuple(columns), values, len(rows))

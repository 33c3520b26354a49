"""Read a local file as rows of a stream, for COPY stream FROM 'file'.

Rows that do not fit are handed back with their place and reason, never dropped silently. The file
is read by a DuckDB instance of its own that may read this one file and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.physical import arrow_type, duckdb_type, physical_names
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import BYTES, STRING, Decimal, Primitive, SqlType
from millstream.service import wordings
from millstream.service.failures import reason
from millstream.service.local_file import FileFormat, file_format, literal, open_for

BATCH_ROWS = 50_000
_BAD, _LINE, _RAW = "$bad", "$line", "$raw"


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that was left out. `line` counts from 1 (a CSV's header is line 1; a Parquet file has
    rows) and is 0 where only the text is known; `column` is empty when the whole row is bad."""

    line: int
    column: str
    message: str
    raw: str = ""

    def __str__(self) -> str:
        place = f"line {self.line}" if self.line else "a line"
        return f"{place}{f', column {self.column}' if self.column else ''}: {self.message}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Some of a file's rows: the schema's key and value columns under their physical names, and
    what was rejected on the way to them (a CSV's syntax errors come with the last one)."""

    table: pa.Table
    rejects: tuple[Reject, ...] = ()


def load_batches(
    path: str | Path,
    schema: Schema,
    *,
    format: str | None = None,
    null: str = "",
    batch_rows: int = BATCH_ROWS,
) -> Iterator[Loaded]:
    """The rows of a local file in its order, typed as the schema's key and value columns.

    Columns are matched by name, without case; a column the file lacks is NULL. JSON files hold an
    object a line, or one array of objects. In a CSV, nested values are written as JSON and bytes
    in base64, and a field equal to `null` is NULL. Raises StatementError for a file that is not
    there, cannot be read as its format, or has a column the schema lacks.
    """
    name = str(path)
    kind = file_format(name, format)
    connection = open_for(name)
    columns = [column for column in schema.columns if column.role is not Role.HEADERS]
    try:
        match kind:
            case FileFormat.CSV:
                yield from _load_csv(connection, name, columns, batch_rows, null)
            case FileFormat.JSON:
                yield from _load_json(connection, name, columns, batch_rows)
            case FileFormat.PARQUET:
                yield from _load_parquet(connection, name, columns, batch_rows)
    except duckdb.Error as error:
        raise wordings.FILE_UNREADABLE(name=name, kind=kind.value, detail=reason(error)) from error
    finally:
        connection.close()


def _name(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


def _match(path: str, found: Sequence[str], columns: Sequence[Column]) -> dict[str, list[str]]:
    """For each schema column the file's names for it; StatementError for names that fit none."""
    by_name = {column.name.casefold(): column.name for column in columns}
    matched: dict[str, list[str]] = {column.name: [] for column in columns}
    unknown = [name for name in found if name.casefold() not in by_name]
    if unknown:
        raise wordings.FILE_COLUMNS(
            path=path,
            unknown=", ".join(sorted(unknown)),
            detail=f"The stream's columns are {', '.join(matched)}.",
            hint="Rename or remove the columns in the file.",
        )
    for name in found:
        matched[by_name[name.casefold()]].append(name)
    return matched


# Each format gives a source relation and, for each column, (SQL text of the raw value or None,
# SQL of the typed value); a row is bad where the first is there and the second is NULL.


@dataclass(frozen=True, slots=True)
class _Value:
    raw: str
    typed: str


def _select(columns: Sequence[Column], values: Sequence[_Value], source: str, raw: str) -> str:
    names = physical_names(column.name for column in columns)
    typed = [f"{value.typed} AS {_name(n)}" for value, n in zip(values, names, strict=True)]
    bad = [
        f"CASE WHEN {value.raw} IS NOT NULL AND {value.typed} IS NULL "
        f"THEN {literal(column.name)} END"
        for column, value in zip(columns, values, strict=True)
        if value.raw != value.typed
    ]
    listed = f"list_filter([{', '.join(bad)}], lambda x: x IS NOT NULL)" if bad else "[]::VARCHAR[]"
    return (
        f"SELECT {', '.join(typed)}, {listed} AS {_name(_BAD)}, {raw} AS {_name(_RAW)}, "
        f"row_number() OVER () AS {_name(_LINE)} FROM {source}"
    )


def _load_parquet(
    connection: duckdb.DuckDBPyConnection, path: str, columns: Sequence[Column], rows: int
) -> Iterator[Loaded]:
    source = f"read_parquet({literal(path)})"
    found = [str(row[0]) for row in connection.execute(f"DESCRIBE FROM {source}").fetchall()]
    matched = _match(path, found, columns)
    values = [
        _Value(_name(names[0]), f"TRY_CAST({_name(names[0])} AS {duckdb_type(column.type)})")
        if (names := matched[column.name])
        else _nothing(column)
        for column in columns
    ]
    yield from _run(connection, _select(columns, values, source, "NULL::VARCHAR"), columns, rows, 1)


def _load_json(
    connection: duckdb.DuckDBPyConnection, path: str, columns: Sequence[Column], rows: int
) -> Iterator[Loaded]:
    with Path(path).open("rb") as file:
        array = file.read(4096).lstrip().startswith(b"[")
    options = "format = 'array'" if array else "format = 'newline_delimited', ignore_errors = true"
    source = f"read_json_objects({literal(path)}, {options})"
    keys = connection.execute(
        f"SELECT DISTINCT unnest(json_keys(json)) FROM {source} WHERE json_type(json) = 'OBJECT'"
    ).fetchall()
    matched = _match(path, sorted(str(row[0]) for row in keys), columns)
    values = []
    for column in columns:
        paths = [_json_path(name) for name in matched[column.name]]
        if not paths:
            values.append(_nothing(column))
            continue
        text = _coalesce([f"json_extract_string(json, {path})" for path in paths])
        node = _coalesce([f"json_extract(json, {path})" for path in paths])
        values.append(_Value(text, _from_json(text, node, column.type)))
    text = "coalesce(json::VARCHAR, '(not JSON)')"
    whole = f"CASE WHEN json_type(json) = 'OBJECT' THEN NULL ELSE {text} END"
    select = _select(columns, values, source, whole)
    yield from _run(connection, select, columns, rows, first_line=1)


def _json_path(name: str) -> str:
    return literal('$."' + name.replace("\\", "\\\\").replace('"', '\\"') + '"')


def _coalesce(expressions: Sequence[str]) -> str:
    return expressions[0] if len(expressions) == 1 else f"coalesce({', '.join(expressions)})"


def _from_json(text: str, node: str, sql_type: SqlType) -> str:
    if sql_type is STRING:
        return text
    if sql_type is BYTES:
        return f"TRY(from_base64({text}))"
    source = text if isinstance(sql_type, Primitive) else node
    return f"TRY(CAST({source} AS {duckdb_type(sql_type)}))"


def _nothing(column: Column) -> _Value:
    nothing = f"NULL::{duckdb_type(column.type)}"
    return _Value(nothing, nothing)


def _load_csv(
    connection: duckdb.DuckDBPyConnection,
    path: str,
    columns: Sequence[Column],
    rows: int,
    null: str,
) -> Iterator[Loaded]:
    sniffed = connection.execute(
        f"SELECT Delimiter, list_transform(Columns, lambda c: c.name) "
        f"FROM sniff_csv({literal(path)}, header = true, all_varchar = true, skip = 0, "
        "ignore_errors = true)"
    ).fetchall()
    delimiter, found = sniffed[0]
    matched = _match(path, found, columns)
    physical = {name: column for column in columns for name in matched[column.name]}
    # Scalar columns are converted by the reader, which knows the lines; the rest afterwards.
    types = {
        name: duckdb_type(column.type) if _scalar(column.type) else "VARCHAR"
        for name, column in physical.items()
    }
    struct = ", ".join(f"{literal(name)}: {literal(types[name])}" for name in found)
    source = (
        f"read_csv({literal(path)}, auto_detect = false, header = true, columns = {{{struct}}}, "
        f"delim = {literal(delimiter)}, quote = '\"', escape = '\"', allow_quoted_nulls = false, "
        f"nullstr = {literal(null)}, "
        "store_rejects = true)"
    )
    values = []
    for column in columns:
        names = matched[column.name]
        if not names:
            values.append(_nothing(column))
            continue
        raw = _name(names[0])
        node = f"TRY(CAST({raw} AS JSON))"
        typed = raw if _scalar(column.type) else _from_json(raw, node, column.type)
        values.append(_Value(raw, typed))
    yield from _run(connection, _select(columns, values, source, "''"), columns, rows)
    yield Loaded(_empty(columns), _csv_rejects(connection))


def _scalar(sql_type: SqlType) -> bool:
    return isinstance(sql_type, Primitive | Decimal) and sql_type is not BYTES


def _csv_rejects(connection: duckdb.DuckDBPyConnection) -> tuple[Reject, ...]:
    rows = connection.execute(
        "SELECT line, column_name, error_type, error_message, csv_line FROM reject_errors "
        "ORDER BY line"
    ).fetchall()
    return tuple(
        Reject(line, (column or "") if kind == "CAST" else "", message, raw or "")
        for line, column, kind, message, raw in rows
    )


def _empty(columns: Sequence[Column]) -> pa.Table:
    return _target(columns).empty_table()


def _target(columns: Sequence[Column]) -> pa.Schema:
    names = physical_names(column.name for column in columns)
    return pa.schema(
        [(name, arrow_type(column.type)) for name, column in zip(names, columns, strict=True)]
    )


def _run(
    connection: duckdb.DuckDBPyConnection,
    select: str,
    columns: Sequence[Column],
    rows: int,
    first_line: int | None = None,
) -> Iterator[Loaded]:
    """Stream the rows of a `_select`, good ones apart from bad ones. `first_line` is the line of
    the first row where every row is a line."""
    target = _target(columns)
    for batch in connection.sql(select).to_arrow_reader(rows):
        table = pa.Table.from_batches([batch])
        whole = pc.greater(pc.fill_null(pc.binary_length(table[_RAW]), 0), 0)
        bad = pc.or_(pc.greater(pc.list_value_length(table[_BAD]), 0), whole)
        good = table.filter(pc.invert(bad)).select(target.names).cast(target)
        rejects = _rejects(table.filter(bad), first_line)
        yield Loaded(good, rejects)


def _rejects(bad: pa.Table, first_line: int | None) -> tuple[Reject, ...]:
    rejects = []
    for row in bad.select([_LINE, _BAD, _RAW]).to_pylist():
        line = row[_LINE] - 1 + first_line if first_line is not None else 0
        if row[_RAW]:
            rejects.append(Reject(line, "", "The line is not a JSON object.", row[_RAW]))
            continue
        for column in row[_BAD]:
            rejects.append(Reject(line, column, "The value does not fit the column's type."))
    return tuple(rejects)

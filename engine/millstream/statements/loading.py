"""Reads a local file as rows of a stream, for COPY stream FROM 'file'.

Rows that do not fit are returned with their line and the reason, never dropped silently. A separate
DuckDB instance reads the file; it has access to this file only.
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
from millstream.query.failures import reason
from millstream.statements import wordings
from millstream.statements.local_file import FileFormat, file_format, literal, open_for

BATCH_ROWS = 50_000
_BAD, _LINE, _RAW = "$bad", "$line", "$raw"


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that was skipped. `line` counts from 1 (a CSV's header is line 1; a Parquet file has
    rows), and is 0 if it is unknown. `column` is empty if the whole row is bad."""

    line: int
    column: str
    message: str
    raw: str = ""

    def __str__(self) -> str:
        position = f"line {self.line}" if self.line else "a line"
        return f"{position}{f', column {self.column}' if self.column else ''}: {self.message}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A batch of a file's rows: the schema's key and value columns under their physical names, and
    the rejected rows. Those that DuckDB's CSV reader rejects come with the last batch."""

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
    """The rows of a local file in file order, typed as the schema's key and value columns.

    Columns are matched by name, ignoring case; a column that the file lacks is NULL. A JSON file
    holds one object per line, or one array of objects. In a CSV, nested values are JSON, bytes are
    base64, and a field equal to `null` is NULL. Raises StatementError if the file does not exist,
    cannot be read in its format, or has a column that the schema lacks.
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


def _quoted(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


def _match_columns(
    path: str, file_columns: Sequence[str], columns: Sequence[Column]
) -> dict[str, list[str]]:
    """The file's names for each schema column; raises StatementError for names that match none."""
    by_name = {column.name.casefold(): column.name for column in columns}
    matched: dict[str, list[str]] = {column.name: [] for column in columns}
    unknown = [name for name in file_columns if name.casefold() not in by_name]
    if unknown:
        raise wordings.FILE_COLUMNS(
            path=path,
            unknown=", ".join(sorted(unknown)),
            detail=f"The stream's columns are {', '.join(matched)}.",
            hint="Rename or remove the columns in the file.",
        )
    for name in file_columns:
        matched[by_name[name.casefold()]].append(name)
    return matched


# Each format provides a source relation and, for each column, the SQL of its raw and of its typed
# value. A row is bad if a raw value is not NULL and its typed value is.


@dataclass(frozen=True, slots=True)
class _ColumnSql:
    raw: str
    typed: str


def _select(columns: Sequence[Column], values: Sequence[_ColumnSql], source: str, raw: str) -> str:
    names = physical_names(column.name for column in columns)
    typed = [f"{value.typed} AS {_quoted(n)}" for value, n in zip(values, names, strict=True)]
    bad = [
        f"CASE WHEN {value.raw} IS NOT NULL AND {value.typed} IS NULL "
        f"THEN {literal(column.name)} END"
        for column, value in zip(columns, values, strict=True)
        if value.raw != value.typed
    ]
    listed = f"list_filter([{', '.join(bad)}], lambda x: x IS NOT NULL)" if bad else "[]::VARCHAR[]"
    return (
        f"SELECT {', '.join(typed)}, {listed} AS {_quoted(_BAD)}, {raw} AS {_quoted(_RAW)}, "
        f"row_number() OVER () AS {_quoted(_LINE)} FROM {source}"
    )


def _load_parquet(
    connection: duckdb.DuckDBPyConnection, path: str, columns: Sequence[Column], rows: int
) -> Iterator[Loaded]:
    source = f"read_parquet({literal(path)})"
    file_columns = [str(row[0]) for row in connection.execute(f"DESCRIBE FROM {source}").fetchall()]
    matched = _match_columns(path, file_columns, columns)
    values = [
        _ColumnSql(
            _quoted(names[0]), f"TRY_CAST({_quoted(names[0])} AS {duckdb_type(column.type)})"
        )
        if (names := matched[column.name])
        else _null_column(column)
        for column in columns
    ]
    yield from _read_batches(
        connection, _select(columns, values, source, "NULL::VARCHAR"), columns, rows, 1
    )


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
    matched = _match_columns(path, sorted(str(row[0]) for row in keys), columns)
    values = []
    for column in columns:
        paths = [_json_path(name) for name in matched[column.name]]
        if not paths:
            values.append(_null_column(column))
            continue
        text = _coalesce([f"json_extract_string(json, {path})" for path in paths])
        node = _coalesce([f"json_extract(json, {path})" for path in paths])
        values.append(_ColumnSql(text, _from_json(text, node, column.type)))
    text = "coalesce(json::VARCHAR, '(not JSON)')"
    bad_row = f"CASE WHEN json_type(json) = 'OBJECT' THEN NULL ELSE {text} END"
    select = _select(columns, values, source, bad_row)
    yield from _read_batches(connection, select, columns, rows, first_line=1)


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


def _null_column(column: Column) -> _ColumnSql:
    null = f"NULL::{duckdb_type(column.type)}"
    return _ColumnSql(null, null)


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
    delimiter, file_columns = sniffed[0]
    matched = _match_columns(path, file_columns, columns)
    physical = {name: column for column in columns for name in matched[column.name]}
    # The reader converts scalar columns, because its errors have line numbers. Other columns are
    # converted afterwards.
    types = {
        name: duckdb_type(column.type) if _is_scalar(column.type) else "VARCHAR"
        for name, column in physical.items()
    }
    struct = ", ".join(f"{literal(name)}: {literal(types[name])}" for name in file_columns)
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
            values.append(_null_column(column))
            continue
        raw = _quoted(names[0])
        node = f"TRY(CAST({raw} AS JSON))"
        typed = raw if _is_scalar(column.type) else _from_json(raw, node, column.type)
        values.append(_ColumnSql(raw, typed))
    yield from _read_batches(connection, _select(columns, values, source, "''"), columns, rows)
    yield Loaded(_empty_table(columns), _csv_rejects(connection))


def _is_scalar(sql_type: SqlType) -> bool:
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


def _empty_table(columns: Sequence[Column]) -> pa.Table:
    return _arrow_schema(columns).empty_table()


def _arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    names = physical_names(column.name for column in columns)
    return pa.schema(
        [(name, arrow_type(column.type)) for name, column in zip(names, columns, strict=True)]
    )


def _read_batches(
    connection: duckdb.DuckDBPyConnection,
    select: str,
    columns: Sequence[Column],
    rows: int,
    first_line: int | None = None,
) -> Iterator[Loaded]:
    """Read the rows of a `_select` in batches, and separate the rejected ones. `first_line` is the
    line of the first row if each row is one line, and None otherwise."""
    schema = _arrow_schema(columns)
    for batch in connection.sql(select).to_arrow_reader(rows):
        table = pa.Table.from_batches([batch])
        bad_row = pc.greater(pc.fill_null(pc.binary_length(table[_RAW]), 0), 0)
        bad = pc.or_(pc.greater(pc.list_value_length(table[_BAD]), 0), bad_row)
        good = table.filter(pc.invert(bad)).select(schema.names).cast(schema)
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

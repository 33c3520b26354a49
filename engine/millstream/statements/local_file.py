"""The local file of a COPY: its format, and a DuckDB instance that may read this file only."""

from __future__ import annotations

import glob
from enum import Enum
from pathlib import Path

import duckdb

from millstream.model.duckdb_settings import SECURE
from millstream.model.errors import UnavailableError
from millstream.statements import wordings


class FileFormat(Enum):
    """The format of a file; `value` is its name in COPY's FORMAT property."""

    CSV = "CSV"
    JSON = "JSON"
    PARQUET = "PARQUET"


_WILDCARDS = "*?["
_SUFFIXES = {
    ".csv": FileFormat.CSV,
    ".tsv": FileFormat.CSV,
    ".json": FileFormat.JSON,
    ".jsonl": FileFormat.JSON,
    ".ndjson": FileFormat.JSON,
    ".parquet": FileFormat.PARQUET,
}


def file_format(path: str, name: str | None = None) -> FileFormat:
    """The format of a file by `name`, or by the suffix of its path, where a final .gz is ignored.

    Raises StatementError if the format is unknown.
    """
    if name is not None:
        try:
            return FileFormat(name.upper())
        except ValueError:
            raise wordings.FILE_UNREADABLE(
                name=path, kind=name, hint="The formats are CSV, JSON and PARQUET."
            ) from None
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    found = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if found is None:
        raise wordings.FILE_FORMAT_UNKNOWN(
            path=path, hint="Add WITH (FORMAT = 'CSV'), 'JSON' or 'PARQUET'."
        )
    return found


def files_of(path: str) -> list[str]:
    """The files that a path with wildcards (`*`, `?`, `[a-z]`, `**` for folders) names, in the
    order of their names; a path without any, or that of a file, is itself. Raises StatementError if
    there is none."""
    if not any(sign in path for sign in _WILDCARDS) or Path(path).is_file():
        return [path]
    found = sorted(name for name in glob.glob(path, recursive=True) if Path(name).is_file())  # noqa: PTH207 relative and absolute patterns
    if not found:
        raise wordings.FILE_MISSING(path=path)
    return found


def open_for(path: str) -> duckdb.DuckDBPyConnection:
    """A separate DuckDB instance that may read one file. Raises StatementError if the file does
    not exist."""
    if "://" in path:
        raise wordings.FILE_PATH(path=path, hint="Give the path of a file.")
    if not Path(path).is_file():
        raise wordings.FILE_MISSING(path=path)
    try:
        connection = duckdb.connect(
            ":memory:",
            config={"threads": 1, **SECURE},
        )
        connection.execute(f"SET allowed_paths = [{literal(path)}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        raise UnavailableError(f"Cannot open '{path}'.", detail=str(error)) from error
    return connection


def literal(value: str) -> str:
    """A text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"

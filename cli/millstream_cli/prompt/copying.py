"""`\\copy` and COPY (query) TO: files on the machine of the shell, whatever it is connected to."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Container, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from millstream.model.errors import StatementError
from millstream.query.results import History, Rows
from millstream.service.database import Database
from millstream_cli.prompt.binary import BINARY_FORMS
from millstream_cli.prompt.command import choice
from millstream_cli.screen.cells import cell, to_json
from millstream_cli.sessions.objects import with_objects
from millstream_cli.sessions.results import Session

FORMATS = ("CSV", "JSON", "PARQUET", "ARROW")
_SUFFIXES = {
    ".csv": "CSV",
    ".json": "JSON",
    ".jsonl": "JSON",
    ".ndjson": "JSON",
    ".parquet": "PARQUET",
    ".arrow": "ARROW",
}
_NESTED = ("ARRAY", "MAP", "STRUCT")
_PLACE = r"(?:'(?P<file>(?:[^']|'')*)'|(?P<bare>\S+?))(?:\s+(?P<format>\w+))?\s*;?\s*$"
_TO = re.compile(rf"\s*(?:\\copy|copy)\s*\((?P<query>.*)\)\s*to\s+{_PLACE}", re.DOTALL | re.I)
_FROM = re.compile(rf"\s*\\copy\s+(?P<name>`[^`]+`|\w+)\s+from\s+{_PLACE}", re.I)
_ANY = re.compile(r"\s*\\copy\b", re.I)
USAGE = "\\copy (<query>) to '<file>', or \\copy <stream> from '<file>'; also stdout and stdin"


@dataclass(frozen=True, slots=True)
class Copy:
    """What is copied: rows of a query into a place, or of a place into a stream or table. `place`
    is a path, or None for standard output or input."""

    what: str
    place: str | None
    format: str
    into_file: bool


def find_copy(text: str) -> Copy | None:
    """The copy that a line asks for; None if it is something else. Raises StatementError for a
    `\\copy` that cannot be read."""
    out, into = _TO.match(text), _FROM.match(text)
    found = out or into
    if found is None:
        if _ANY.match(text):
            raise StatementError("This \\copy cannot be read.", hint=USAGE)
        return None
    named = found["file"]
    place = named.replace("''", "'") if named is not None else found["bare"]
    if named is None and place.lower() in ("stdout", "stdin"):
        return Copy(found[1], None, _format(found["format"], "CSV"), out is not None)
    suffix = _SUFFIXES.get(Path(place).suffix.lower(), "CSV")
    return Copy(found[1], place, _format(found["format"], suffix), out is not None)


def _format(given: str | None, default: str) -> str:
    return default if given is None else choice("format", given, FORMATS)


def run_copy(copy: Copy, session: Session) -> str:
    """Copy; returns what to tell. A query has to end: no push query."""
    try:
        return _written(copy, session.database) if copy.into_file else _inserted(copy, session)
    except (OSError, pa.ArrowException) as error:
        raise StatementError(f"Could not copy: {error}") from error


def _written(copy: Copy, database: Database) -> str:
    if copy.place is None and copy.format in BINARY_FORMS:
        raise StatementError(f"{copy.format} is not for a screen.", hint="Name a file.")
    result = database.execute(f"{copy.what.rstrip().rstrip(';')};")
    if not isinstance(result, Rows | History):
        if hasattr(result, "close"):
            result.close()
        raise StatementError(
            "Only a query that ends can be copied.", hint="Leave out EMIT CHANGES: a pull query."
        )
    table = result.arrow()
    if copy.place is None:
        sys.stdout.writelines(f"{line}\n" for line in _lines(table, copy.format))
        return ""
    # Into a file of another name, so that what was there stays if this fails.
    unfinished = Path(f"{copy.place}.new")
    try:
        _write(table, copy.format, unfinished)
        unfinished.replace(copy.place)
    finally:
        unfinished.unlink(missing_ok=True)
    return f"{table.num_rows} rows copied to {copy.place}"


def _write(table: pa.Table, form: str, path: Path) -> None:
    match form:
        case "PARQUET":
            pyarrow.parquet.write_table(table, path)
        case "ARROW":
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        case _:
            with path.open("w", encoding="utf-8", newline="") as file:
                file.writelines(f"{line}\n" for line in _lines(table, form))


def _lines(table: pa.Table, form: str) -> Iterator[str]:
    """Rows as the shell prints them as JSON or CSV."""
    names = table.column_names
    if form == "CSV":
        yield ",".join(map(_field, names))
    for batch in table.to_batches():
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        for row in with_objects(rows, table.schema):
            if form == "JSON":
                yield to_json(dict(zip(names, row, strict=True)))
            else:
                yield ",".join("" if value is None else _field(cell(value)) for value in row)


def _field(text: str) -> str:
    """A field of CSV by RFC 4180; the empty text is quoted, since an empty field is NULL."""
    if text and not re.search(r'[",\r\n]', text):
        return text
    return f'"{text.replace(chr(34), chr(34) * 2)}"'


def _inserted(copy: Copy, session: Session) -> str:
    content = sys.stdin.buffer.read() if copy.place is None else Path(copy.place).read_bytes()
    name = copy.what.strip("`") if copy.what.startswith("`") else copy.what.upper()
    session.status()  # A server's names are as of the last request.
    source = session.names().sources.get(name)
    columns = () if source is None else source.columns
    nested = {column.name for column in columns if column.type.startswith(_NESTED)}
    count = session.database.insert(name, _read(content, copy.format, nested))
    return f"{count} rows copied into {name}"


def _read(content: bytes, form: str, nested: Container[str]) -> pa.Table | list[dict[str, Any]]:
    match form:
        case "PARQUET":
            return cast(pa.Table, pyarrow.parquet.read_table(pa.BufferReader(content)))
        case "ARROW":
            with pa.ipc.open_file(pa.BufferReader(content)) as reader:
                return cast(pa.Table, reader.read_all())
        case "JSON":
            try:
                lines = content.decode("utf-8").splitlines()
                return [json.loads(line, parse_float=Decimal) for line in lines if line.strip()]
            except ValueError as error:
                raise StatementError(f"Not one JSON object on each line: {error}") from error
        case _:
            return _read_csv(content, nested)


def _read_csv(content: bytes, nested: Container[str]) -> list[dict[str, Any]]:
    """All values as texts, which are converted as literals are, but JSON in `nested` columns; an
    empty field is NULL."""
    convert = pyarrow.csv.ConvertOptions(
        column_types={}, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    names = pyarrow.csv.open_csv(pa.BufferReader(content)).schema.names
    convert.column_types = dict.fromkeys(names, pa.string())
    convert.null_values = [""]
    rows = pyarrow.csv.read_csv(pa.BufferReader(content), convert_options=convert).to_pylist()
    return [{name: _parsed(name, text, nested) for name, text in row.items()} for row in rows]


def _parsed(name: str, text: str | None, nested: Container[str]) -> Any:
    if text is None or (name not in nested and name.upper() not in nested):
        return text
    try:
        return json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise StatementError(f"A value of column {name} is not JSON: {error}") from error

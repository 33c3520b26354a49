"""The formats of COPY: its options, reading the fields of rows that are text, and writing them.

Source: PostgreSQL's documentation, "COPY".
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
from pyarrow import csv

from millstream_parser.lexemes import Lexeme, LexemeKind
from millstream_server.postgres.refusals import NOT_SUPPORTED, PgError

BAD_COPY, BAD_ENCODING = "22P04", "22021"
_ESCAPED = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_ESCAPE = re.compile(rb"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_LITERAL_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "f": "\f"}
_EMPTY_LINE = re.compile(rb"(?:\A|\n)\r?\n")
_TRUE, _FALSE = ("TRUE", "ON", "1", "MATCH"), ("FALSE", "OFF", "0")
_HINT = (
    "Its options are FORMAT text, csv or binary, DELIMITER, NULL, HEADER, QUOTE, ESCAPE and"
    " ENCODING."
)
Field = TypeVar("Field")
Fields = Sequence[str | None]
Columns = list[list[str | None]]
Pieces = Sequence[Sequence[str | None] | Sequence[bytes | None]]
"""Fields by column: of texts, or of bytes in the binary format."""
PIECE_ROWS = 10_000
"""Rows that are Python's objects at a time: they take many times the bytes that they came in."""
ROWS_MAX = 2_000_000
"""The most rows of one COPY."""


@dataclass(frozen=True, slots=True)
class CopyFormat:
    """How the rows of a COPY are written: as CSV, in PostgreSQL's text format, or in `binary`, for
    which the rest is not used."""

    csv: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'
    escape: str = '"'
    binary: bool = False


_CSV = CopyFormat(csv=True, delimiter=",", null="")


# ---- options -------------------------------------------------------------------------------------


def copy_format(parts: Sequence[Lexeme]) -> CopyFormat:
    """The format that the options behind STDIN or STDOUT say. Raises PgError."""
    rest = list(parts)
    if rest and rest[0].upper == "WITH":
        del rest[0]
    options: dict[str, str] = {}
    if rest and rest[0].text == "(" and rest[-1].text == ")":
        _listed(rest[1:-1], options)
    else:
        _in_a_row(rest, options)
    return _checked(options)


def _listed(parts: list[Lexeme], options: dict[str, str]) -> None:
    """(FORMAT csv, HEADER, NULL '')."""
    while parts:
        name = parts.pop(0).upper
        value = ""
        if parts and parts[0].text != ",":
            value = _taken(parts)
        options[name] = value
        if parts and parts.pop(0).text != ",":
            raise PgError("The options of COPY are separated by commas.", hint=_HINT)


def _in_a_row(parts: list[Lexeme], options: dict[str, str]) -> None:
    """CSV HEADER NULL AS '', as before PostgreSQL 9.0."""
    while parts:
        name = parts.pop(0).upper
        if name in ("CSV", "BINARY"):
            options["FORMAT"] = name
            continue
        if parts and parts[0].upper == "AS":
            del parts[0]
        options[name] = "" if name == "HEADER" or not parts else _taken(parts)


def _taken(parts: list[Lexeme]) -> str:
    """A value: a word, a string, or E'\\t'."""
    part = parts.pop(0)
    if part.upper == "E" and parts and parts[0].kind is LexemeKind.STRING:
        text = parts.pop(0).decoded
        return re.sub(r"\\(.)", lambda found: _LITERAL_ESCAPES.get(found[1], found[1]), text)
    return part.decoded


def _checked(options: dict[str, str]) -> CopyFormat:
    form = options.pop("FORMAT", "text").lower()
    if form == "binary" and not options.keys() - {"ENCODING"}:
        return CopyFormat(binary=True)
    if form == "binary":
        raise PgError(f"COPY in the binary format has no option {next(iter(options))}.")
    if form not in ("text", "csv"):
        raise PgError(f"COPY has no format {form} here.", hint=_HINT, code=NOT_SUPPORTED)
    found = _CSV if form == "csv" else CopyFormat()
    if options.pop("ENCODING", "UTF8").upper().replace("-", "") != "UTF8":
        raise PgError("COPY reads and writes UTF-8 only.", code=NOT_SUPPORTED)
    header = options.pop("HEADER", "FALSE").upper() or "TRUE"
    if header not in _TRUE + _FALSE:
        raise PgError(f"HEADER is true or false, not {header}.")
    found = replace(found, header=header in _TRUE)
    quote = options.pop("QUOTE", found.quote)
    found = replace(
        found,
        delimiter=options.pop("DELIMITER", found.delimiter),
        null=options.pop("NULL", found.null),
        quote=quote,
        escape=options.pop("ESCAPE", quote),
    )
    if options:
        raise PgError(f"COPY has no option {next(iter(options))} here.", hint=_HINT,
                      code=NOT_SUPPORTED)  # fmt: skip
    marks = (found.delimiter, found.quote, found.escape)
    if any(len(mark) != 1 or not mark.isascii() or mark in "\r\n" for mark in marks):
        raise PgError("DELIMITER, QUOTE and ESCAPE of COPY are one character each.")
    if found.delimiter == found.quote and found.csv:
        raise PgError("DELIMITER and QUOTE of COPY must differ.")
    return found


# ---- reading -------------------------------------------------------------------------------------


def pieces(data: bytes, given: CopyFormat, count: int) -> Iterator[Columns]:
    """The fields of some rows at a time, by column, of which there are `count`. Raises PgError,
    with the number of the row, for one that has fewer or more, and for too many rows."""
    if given.csv:
        yield from _csv_pieces(data, given, count)
        return
    yield from in_pieces(_checked_rows(data, given, count), count)


def in_pieces(rows: Iterable[Sequence[Field]], count: int) -> Iterator[list[list[Field]]]:
    """The fields of `count` columns, by column, of some rows at a time. Raises PgError for too many
    rows."""
    columns: list[list[Field]] = [[] for _ in range(count)]
    for number, fields in enumerate(rows, 1):
        _check_number(number)
        for column, field in zip(columns, fields, strict=True):
            column.append(field)
        if number % PIECE_ROWS == 0:
            yield columns
            columns = [[] for _ in range(count)]
    if columns[0]:
        yield columns


def _check_number(number: int) -> None:
    if number > ROWS_MAX:
        raise PgError(
            f"A COPY has at most {ROWS_MAX} rows, as it inserts all of them or none.",
            hint="Copy them in several pieces.",
            code="53400",
        )


def _checked_rows(data: bytes, given: CopyFormat, count: int) -> Iterator[Fields]:
    for number, fields in enumerate(_text_rows(data, given), 1):
        if len(fields) != count:
            what = "missing data" if len(fields) < count else "extra data"
            raise PgError(
                f"Row {number} of COPY has {len(fields)} columns instead of {count}.",
                detail=f"{what}: {_short(fields)}",
                code=BAD_COPY,
            )
        yield fields


def _text_rows(data: bytes, given: CopyFormat) -> Iterator[Fields]:
    mark, null = given.delimiter.encode(), given.null.encode()
    for number, written in enumerate(io.BytesIO(data)):
        line = written.removesuffix(b"\n").removesuffix(b"\r")
        if line == b"\\.":
            return
        if number or not given.header:
            yield [None if raw == null else _unescaped(raw) for raw in _split(line, mark)]


def _split(line: bytes, mark: bytes) -> list[bytes]:
    """The fields; a delimiter behind a backslash is none."""
    if b"\\" + mark not in line:
        return line.split(mark)
    fields, start, at = [], 0, 0
    while at < len(line):
        if line[at : at + 1] == b"\\":
            at += 2
        elif line[at : at + 1] == mark:
            fields.append(line[start:at])
            start = at = at + 1
        else:
            at += 1
    return [*fields, line[start:]]


def _unescaped(raw: bytes) -> str:
    if b"\\" in raw:
        raw = _ESCAPE.sub(_meant, raw)
    return _decoded(raw)


def _meant(found: re.Match[bytes]) -> bytes:
    sign = found[1]
    if sign[:1] == b"x" and len(sign) > 1:
        return bytes([int(sign[1:], 16)])
    if sign[:1].isdigit() and sign[0] < ord("8"):
        return bytes([int(sign, 8) & 0xFF])
    return _ESCAPED.get(sign, sign)


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise PgError("COPY has bytes that are no UTF-8.", code=BAD_ENCODING) from error


def _csv_pieces(data: bytes, given: CopyFormat, count: int) -> Iterator[Columns]:
    names = [str(number) for number in range(count)]
    data = re.sub(rb"(\A|\n)\\\.\r?\n?\Z", rb"\1", data)
    if given.header:
        data = data.partition(b"\n")[2]
    if not data:
        return
    if data.count(given.quote.encode()) % 2:
        raise PgError("COPY has a quoted field without an end.", code=BAD_COPY)
    table = _read_csv(data, given, names, empty_lines=True)
    _check_number(table.num_rows)
    if count > 1 and _EMPTY_LINE.search(data):
        # It would be a row of NULLs.
        without = _read_csv(data, given, names, empty_lines=False)
        if without.num_rows < table.num_rows:
            raise PgError("COPY has an empty line, which is no row.", code=BAD_COPY)
    for start in range(0, table.num_rows, PIECE_ROWS):
        yield [column.to_pylist() for column in table.slice(start, PIECE_ROWS).columns]


def _read_csv(
    data: bytes, given: CopyFormat, names: Sequence[str], *, empty_lines: bool
) -> pa.Table:
    try:
        return csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(use_threads=False, column_names=names),
            csv.ParseOptions(
                delimiter=given.delimiter,
                quote_char=given.quote,
                double_quote=True,
                newlines_in_values=True,
                ignore_empty_lines=not empty_lines,
            ),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[given.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise PgError("COPY has rows that are no CSV.", detail=str(error), code=BAD_COPY) from error


def _short(fields: Fields) -> str:
    text = ", ".join("NULL" if field is None else field for field in fields)
    return text if len(text) <= 100 else f"{text[:100]}…"


# ---- writing -------------------------------------------------------------------------------------


def writer_of(given: CopyFormat) -> Callable[[Sequence[bytes | None]], bytes]:
    """What makes a line of the fields of a row."""
    mark, null = given.delimiter.encode(), given.null.encode()
    quoted = _quoting(given) if given.csv else _escaping(mark)

    def line(fields: Sequence[bytes | None]) -> bytes:
        return mark.join(null if field is None else quoted(field) for field in fields) + b"\n"

    return line


def _escaping(mark: bytes) -> Callable[[bytes], bytes]:
    pairs = ((b"\\", b"\\\\"), (b"\n", b"\\n"), (b"\r", b"\\r"), (b"\t", b"\\t"))
    others = () if mark == b"\t" else ((mark, b"\\" + mark),)

    def escaped(value: bytes) -> bytes:
        for raw, written in (*pairs, *others):
            value = value.replace(raw, written)
        return value

    return escaped


def _quoting(given: CopyFormat) -> Callable[[bytes], bytes]:
    quote, escape, null = given.quote.encode(), given.escape.encode(), given.null.encode()
    marks = (quote, given.delimiter.encode(), b"\n", b"\r")

    def quoted(value: bytes) -> bytes:
        if value not in (null, b"", b"\\.") and not any(mark in value for mark in marks):
            return value
        inner = value if escape == quote else value.replace(escape, escape + escape)
        return quote + inner.replace(quote, escape + quote) + quote

    return quoted

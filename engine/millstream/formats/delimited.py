"""DELIMITED: one line of separated fields, quoted where needed (as Apache Commons CSV does it)."""

from __future__ import annotations

import base64
import binascii
import decimal
import re
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.java_text import double_text
from millstream.formats.json import from_carrier
from millstream.formats.json_rows import fit_decimal, temporal
from millstream.formats.json_text import temporal_sql
from millstream.formats.kafka import read_text
from millstream.formats.payload import Bytes, Layout, Read, nothing_read, one_array
from millstream.model.errors import RecordError
from millstream.model.java_number import decimal_text
from millstream.model.physical import arrow_type
from millstream.model.types import Decimal, Primitive, SqlType

DELIMITER_NAMES = {"SPACE": " ", "TAB": "\t"}
"""Delimiters that have names."""
_RANGES = {Primitive.INTEGER: 2**31}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
)
_PLAIN: Mapping[SqlType, str] = {
    Primitive.INTEGER: "^-?[0-9]+$",
    Primitive.BIGINT: "^-?[0-9]+$",
    Primitive.DATE: "^-?[0-9]+$",
    Primitive.TIME: "^-?[0-9]+$",
    Primitive.TIMESTAMP: "^-?[0-9]+$",
    Primitive.DOUBLE: r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$",
}
"""The texts that Arrow's own parsers read exactly as this format defines them."""
_TEMPORAL: Mapping[SqlType, pa.DataType] = {
    Primitive.DATE: pa.int32(),
    Primitive.TIME: pa.int64(),
    Primitive.TIMESTAMP: pa.int64(),
}


def delimiter(properties: Mapping[str, str]) -> str:
    """The delimiter character of a format's properties."""
    name = properties.get("delimiter", ",")
    return DELIMITER_NAMES.get(name.upper(), name)


def read_delimited(con: duckdb.DuckDBPyConnection, payload: Bytes, layout: Layout) -> Read:
    """Read the requested columns; a line with too few or too many fields, or with one that does not
    match its column, requested or not, is bad; an empty one is NULL."""
    if not layout.columns:
        return nothing_read(layout, len(payload))
    text, bad = read_text(payload)
    fields, wrong = _split(con, text, delimiter(layout.properties), len(layout.columns))
    bad |= wrong
    columns = []
    for column, texts in zip(layout.columns, fields, strict=True):
        read, refused = _convert(texts, column.type)
        bad = {row: f"{column.name}: {reason}" for row, reason in refused.items()} | bad
        columns.append(read)
    return Read(tuple(columns[index] for index in layout.wanted), bad)


def write_delimited(
    con: duckdb.DuckDBPyConnection, columns: list[pa.Array], layout: Layout
) -> Bytes:
    """Write lines without line ends. NULL is an empty field, or no payload for a single column."""
    names = [f"c{index}" for index in range(len(columns))]
    separator = delimiter(layout.properties)
    fields = [
        _quoted(_field_text(name, column.type), column.type, separator, first=index == 0)
        for index, (name, column) in enumerate(zip(names, layout.columns, strict=True))
    ]
    if len(fields) == 1:
        line = fields[0]
    else:
        line = f" || {_literal(separator)} || ".join(f"coalesce({f}, '')" for f in fields)
    rows = con.from_arrow(pa.table(columns, names=names))
    return one_array(rows.project(f"{line} AS line").to_arrow_table()["line"]).cast(pa.binary())


def split_line(line: str, separator: str) -> list[str]:
    """The fields of the first line that is not empty. Raises RecordError for invalid quoting."""
    line = line.lstrip("\r\n")
    if not line:
        raise RecordError("there are no fields in the record")
    fields, at = [], 0
    while True:
        field, at = (
            _quoted_field(line, at, separator)
            if line[at : at + 1] == '"'
            else (_plain_field(line, at, separator))
        )
        fields.append(field)
        if at >= len(line) or line[at] in "\r\n":
            return fields
        at += 1


def _plain_field(line: str, at: int, separator: str) -> tuple[str, int]:
    end = at
    while end < len(line) and line[end] != separator and line[end] not in "\r\n":
        end += 1
    return line[at:end], end


def _quoted_field(line: str, at: int, separator: str) -> tuple[str, int]:
    found, end = [], at + 1
    while True:
        close = line.find('"', end)
        if close < 0:
            raise RecordError("a quoted field is not closed")
        found.append(line[end:close])
        if line[close + 1 : close + 2] != '"':
            break
        found.append('"')
        end = close + 2
    end = close + 1
    while end < len(line) and line[end] != separator and line[end] not in "\r\n":
        if not line[end].isspace():
            raise RecordError(f"unexpected '{line[end]}' after a quoted field")
        end += 1
    return "".join(found), end


def _split(
    con: duckdb.DuckDBPyConnection, text: pa.Array, separator: str, width: int
) -> tuple[list[pa.Array], dict[int, str]]:
    """The fields of each line by position (empty ones NULL), and why lines are bad."""
    odd = pc.match_substring_regex(text, '["\r\n]|^$').fill_null(False)
    lists = pc.split_pattern(text, separator)
    uneven = pc.and_not(pc.not_equal(pc.list_value_length(lists), width).fill_null(False), odd)
    bad: dict[int, str] = {}
    if pc.any(odd).as_py() or pc.any(uneven).as_py():
        rows = lists.to_pylist()
        for row in pc.indices_nonzero(pc.or_(odd, uneven)).to_pylist():
            try:
                rows[row] = split_line(text[row].as_py(), separator)
                if len(rows[row]) != width:
                    raise RecordError(f"expected {width} fields, got {len(rows[row])}")
            except RecordError as error:
                bad[row] = error.message
                rows[row] = None
        lists = pa.array(rows, pa.list_(pa.string()))
    flat, parents = pc.list_flatten(lists), lists.is_valid()
    present = pc.indices_nonzero(parents)
    places = (
        None
        if lists.null_count == 0
        else pc.subtract(pc.cumulative_sum(parents.cast(pa.int64())), 1)
    )
    fields = []
    for index in range(width):
        picked = flat.take(pa.array(range(index, len(present) * width, width), pa.int64()))
        picked = pc.if_else(pc.equal(picked, ""), pa.scalar(None, pa.string()), picked)
        if places is not None:
            picked = picked.take(pc.if_else(parents, places, pa.scalar(None, pa.int64())))
        fields.append(one_array(picked))
    return fields, bad


def _convert(texts: pa.Array, sql_type: SqlType) -> tuple[pa.Array, dict[int, str]]:
    target = arrow_type(sql_type)
    if sql_type is Primitive.STRING:
        return texts, {}
    pattern = _PLAIN.get(sql_type)
    if isinstance(sql_type, Decimal):
        whole, scale = sql_type.precision - sql_type.scale, sql_type.scale
        fraction = f"(?:\\.[0-9]{{1,{scale}}})?" if scale else ""
        pattern = f"^-?[0-9]{{1,{whole}}}{fraction}$" if 0 < whole < 100 else None
    if (
        pattern is not None
        and pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False
    ):
        try:
            if sql_type not in _TEMPORAL:
                return texts.cast(target), {}
            carried, fine = from_carrier(texts.cast(_TEMPORAL[sql_type]), sql_type)
            if fine.all():
                return carried, {}
        except pa.ArrowInvalid:
            pass
    values, bad = [], {}
    for row, text in enumerate(texts.to_pylist()):
        try:
            values.append(None if text is None else convert_text(text, sql_type))
        except RecordError as error:
            bad[row] = error.message
            values.append(None)
    return pa.array(values, target), bad


def convert_text(text: str, sql_type: SqlType) -> Any:
    """One field as pyarrow accepts it for the type; raises RecordError for an invalid value."""
    match sql_type:
        case Decimal(precision, scale) if _DECIMAL.fullmatch(text):
            return fit_decimal(decimal.Decimal(text), precision, scale)
        case Primitive.BOOLEAN:
            return text.lower() == "true"
        case Primitive.DOUBLE if _DOUBLE.fullmatch(text.strip()):
            return float(text.strip().rstrip("fFdD"))
        case Primitive.BYTES:
            return _from_base64(text)
        case Primitive.INTEGER | Primitive.BIGINT if _INTEGER.fullmatch(text):
            limit = _RANGES.get(sql_type, 2**63)
            if -limit <= int(text) < limit:
                return int(text)
        case Primitive.DATE | Primitive.TIME | Primitive.TIMESTAMP if _INTEGER.fullmatch(text):
            return temporal(int(text), sql_type)
    raise RecordError(f"cannot read '{text}' as {sql_type}")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RecordError(f"'{text}' is not base64 text") from error


def _field_text(value: str, sql_type: SqlType) -> str:
    match sql_type:
        case Primitive.STRING:
            return value
        case Primitive.BYTES:
            return f"base64({value})"
        case Primitive.DOUBLE:
            return double_text(value)
        case Decimal(precision, scale) if precision == scale:
            return decimal_text(f"{value}::VARCHAR")
        case Primitive.DATE | Primitive.TIME | Primitive.TIMESTAMP:
            return f"{temporal_sql(value, sql_type)}::VARCHAR"
    return f"{value}::VARCHAR"


def _quoted(text: str, sql_type: SqlType, separator: str, *, first: bool) -> str:
    """SQL for a field with quotes where Commons CSV (minimal quoting) puts them."""
    number = sql_type not in (Primitive.STRING, Primitive.BYTES, Primitive.BOOLEAN)
    if number and not first and separator not in "0123456789.-+E":
        return text
    special = f'[\\n\\r"\\x{{{ord(separator):x}}}]'
    pattern = f"^[\\x00-\\x23]|{special}|[\\x00-\\x20]$"
    if first:
        pattern += "|^[^0-9A-Za-z]|^$"
    pattern = f"(?s){pattern.replace('$', chr(92) + 'z')}"
    quoted = f"'\"' || replace({text}, '\"', '\"\"') || '\"'"
    return f"if(regexp_matches({text}, {_literal(pattern)}), {quoted}, {text})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

"""Values as PostgreSQL writes them, as text and in binary.

Source: PostgreSQL's documentation, "Data Types", and the send and receive functions of its types.
"""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from millstream.model import types as t
from millstream.model.iso_times import iso_date, iso_timestamp
from millstream.model.schema import Schema
from millstream.model.types import SqlType
from millstream_server.postgres.copying import CopyFormat, writer_of
from millstream_server.postgres.messages import BINARY_FORMAT, data_row, row_body
from millstream_server.results.values import column_values, shower

Encode = Callable[[Any], bytes]
EPOCH_DAYS = 10_957
"""From 1970 to 2000, where PostgreSQL counts from."""
EPOCH_MICROS = EPOCH_DAYS * 86_400_000_000


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of PostgreSQL: `array` is the OID of its arrays; `size` is -1 where it varies."""

    name: str
    oid: int
    array: int
    size: int = -1


BOOL = PgType("boolean", 16, 1000, 1)
BYTEA = PgType("bytea", 17, 1001)
INT8 = PgType("bigint", 20, 1016, 8)
INT4 = PgType("integer", 23, 1007, 4)
TEXT = PgType("text", 25, 1009)
OID = PgType("oid", 26, 1028, 4)
JSON = PgType("json", 114, 199)
FLOAT8 = PgType("double precision", 701, 1022, 8)
DATE = PgType("date", 1082, 1182, 4)
TIME = PgType("time without time zone", 1083, 1183, 8)
TIMESTAMP = PgType("timestamp without time zone", 1114, 1115, 8)
NUMERIC = PgType("numeric", 1700, 1231)
_PRIMITIVES: dict[SqlType, PgType] = {
    t.BOOLEAN: BOOL,
    t.BYTES: BYTEA,
    t.BIGINT: INT8,
    t.INTEGER: INT4,
    t.STRING: TEXT,
    t.DOUBLE: FLOAT8,
    t.DATE: DATE,
    t.TIME: TIME,
    t.TIMESTAMP: TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class OidArray(t.Array):
    """The type of an array of BIGINT in the result of a query about the catalog. All clients know
    oid[]; asyncpg looks up any other array of numbers with a query whose result has one itself."""


def pg_type(kind: SqlType) -> PgType:
    """The type of a column's values. What PostgreSQL has no type for (MAP, STRUCT, and an ARRAY of
    arrays, which need not be rectangular) is JSON, as everywhere in the HTTP API."""
    match kind:
        case t.Decimal():
            return NUMERIC
        case OidArray():
            return _array_of(OID)
        case t.Array(element):
            inner = pg_type(element)
            return JSON if isinstance(element, t.Array) else _array_of(inner)
        case t.Map() | t.Struct():
            return JSON
    return _PRIMITIVES.get(kind, TEXT)


def _array_of(inner: PgType) -> PgType:
    return PgType(f"{inner.name}[]", inner.array, 0)


def rows_of(table: pa.Table, schema: Schema, formats: Sequence[int]) -> list[bytes]:
    """The rows as messages. `table` begins with the columns of `schema`."""
    columns = [
        map(_optional(encoder(kind, form)), values)
        for (kind, values), form in zip(column_values(table, schema), formats, strict=True)
    ]
    if not columns:
        return [data_row(())] * table.num_rows
    return list(map(data_row, zip(*columns, strict=True)))


def copied_lines(table: pa.Table, schema: Schema, given: CopyFormat) -> list[bytes]:
    """The rows as lines of COPY, or in its binary format."""
    form = BINARY_FORMAT if given.binary else 0
    columns = [
        list(map(_optional(encoder(kind, form)), values))
        for kind, values in column_values(table, schema)
    ]
    if not columns:
        return [row_body(()) if given.binary else b"\n"] * table.num_rows
    write = row_body if given.binary else writer_of(given)
    return list(map(write, zip(*columns, strict=True)))


def _optional(encode: Encode) -> Callable[[Any], bytes | None]:
    return lambda value: None if value is None else encode(value)


def encoder(kind: SqlType, form: int) -> Encode:
    """What writes the values of a type that are not NULL, in a format."""
    shown = pg_type(kind)
    if shown is JSON:
        show = shower(kind)
        return lambda value: show(value).encode()
    if isinstance(kind, t.Array):
        inner, element = encoder(kind.element, form), pg_type(kind.element).oid
        if isinstance(kind, OidArray):
            inner, element = (_oid if form == BINARY_FORMAT else inner), OID.oid
        if form == BINARY_FORMAT:
            return lambda values: _binary_array(values, inner, element)
        return lambda values: _text_array(values, inner)
    return (_BINARY if form == BINARY_FORMAT else _TEXT)[shown.oid]


def _text_array(values: Sequence[Any], inner: Encode) -> bytes:
    return b"{%s}" % b",".join(b"NULL" if v is None else _quoted(inner(v)) for v in values)


def _quoted(value: bytes) -> bytes:
    """An element of an array. Numbers and times need no quotes, and get none."""
    plain = value and not any(mark in value for mark in (b'"', b"\\", b"{", b"}", b",", b" "))
    if plain and value.upper() != b"NULL" and value.strip() == value and value.isascii():
        return value
    return b'"%s"' % value.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _binary_array(values: Sequence[Any], inner: Encode, element: int) -> bytes:
    nulls = any(value is None for value in values)
    if not values:
        return struct.pack("!iii", 0, 0, element)
    parts = [struct.pack("!iiiii", 1, nulls, element, len(values), 1)]
    for value in values:
        raw = None if value is None else inner(value)
        parts.append(b"\xff\xff\xff\xff" if raw is None else struct.pack("!i", len(raw)) + raw)
    return b"".join(parts)


def _text(value: Any) -> bytes:
    # PostgreSQL's text has no zero bytes, and its clients end a text there.
    return str(value).replace("\0", "").encode("utf-8", "replace")


def _bool(value: bool) -> bytes:
    return b"t" if value else b"f"


def _float(value: float) -> bytes:
    if math.isfinite(value):
        text = repr(value)
        return text.removesuffix(".0").encode()
    return b"NaN" if math.isnan(value) else b"Infinity" if value > 0 else b"-Infinity"


def _numeric(value: Decimal) -> bytes:
    return format(value, "f").encode()


def _bytea(value: bytes) -> bytes:
    return b"\\x" + value.hex().encode()


def _date(days: int) -> bytes:
    return _of_year(iso_date(days)).encode()


def _time(value: datetime.time) -> bytes:
    return value.isoformat().encode()


def _timestamp(micros: int) -> bytes:
    date, _, clock = iso_timestamp(micros).partition("T")
    day, before, era = _of_year(date).partition(" BC")
    return f"{day} {clock.removesuffix('.000')}{before}{era}".encode()


def _of_year(iso: str) -> str:
    """A date in PostgreSQL's way: no sign, and BC before the year 1 (year 0 is 1 BC)."""
    sign = -1 if iso.startswith("-") else 1
    year, month, day = iso.lstrip("+-").split("-")
    number = sign * int(year)
    if number > 0:
        return f"{number:04}-{month}-{day}"
    return f"{1 - number:04}-{month}-{day} BC"


def _packed(layout: str) -> Encode:
    packing = struct.Struct(layout)
    return packing.pack


def _oid(value: int) -> bytes:
    return struct.pack("!I", value & 0xFFFFFFFF)


def _binary_time(value: datetime.time) -> bytes:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return struct.pack("!q", seconds * 1_000_000 + value.microsecond)


def _binary_numeric(value: Decimal) -> bytes:
    """Digits to the base of 10,000, with the weight of the first and the scale of the last."""
    sign, _, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    whole, _, fraction = format(abs(value), "f").partition(".")
    whole = whole.lstrip("0")
    whole = whole.zfill(-(-len(whole) // 4) * 4)
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    digits = [int((whole + fraction)[at : at + 4]) for at in range(0, len(whole + fraction), 4)]
    weight = len(whole) // 4 - 1
    while digits and digits[0] == 0:
        del digits[0]
        weight -= 1
    while digits and digits[-1] == 0:
        del digits[-1]
    weight = weight if digits else 0
    head = struct.pack("!hhHh", len(digits), weight, 0x4000 if sign and digits else 0, scale)
    return head + struct.pack(f"!{len(digits)}h", *digits)


_TEXT: dict[int, Encode] = {
    BOOL.oid: _bool,
    BYTEA.oid: _bytea,
    INT8.oid: _text,
    INT4.oid: _text,
    TEXT.oid: _text,
    FLOAT8.oid: _float,
    DATE.oid: _date,
    TIME.oid: _time,
    TIMESTAMP.oid: _timestamp,
    NUMERIC.oid: _numeric,
}
_BINARY: dict[int, Encode] = {
    BOOL.oid: _packed("!?"),
    BYTEA.oid: bytes,
    INT8.oid: _packed("!q"),
    INT4.oid: _packed("!i"),
    TEXT.oid: _text,
    FLOAT8.oid: _packed("!d"),
    DATE.oid: lambda days: struct.pack("!i", days - EPOCH_DAYS),
    TIME.oid: _binary_time,
    TIMESTAMP.oid: lambda micros: struct.pack("!q", micros - EPOCH_MICROS),
    NUMERIC.oid: _binary_numeric,
}

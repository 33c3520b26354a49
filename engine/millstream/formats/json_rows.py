"""Reads JSON exactly, one record at a time; every faster path must return the same result.

Records are parsed by the standard library with decimals for all fractions, so that a STRING or
DECIMAL column loses no digit. Fields match a column by their exact name or, if there is none, by
their upper-cased name; the last of several wins.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from millstream.formats.json_value import first_value
from millstream.formats.payload import Layout, Read, read_one_by_one
from millstream.model.errors import RecordError
from millstream.model.physical import physical_names
from millstream.model.schema import Column
from millstream.model.types import Array, Decimal, Map, Primitive, SqlType, Struct

_RANGES = {Primitive.INTEGER: 2**31, Primitive.BIGINT: 2**63}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(
    r"[\x00-\x20]*[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
    r"[\x00-\x20]*"
)
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_EPOCH_DAY = datetime.date(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1)
_CONTEXT = decimal.Context(prec=400, Emax=999_999, Emin=-999_999, traps=[decimal.InvalidOperation])
"""Numbers beyond the range of exponents are infinite or 0, as for a double."""


def read_json_rows(payloads: Sequence[bytes | None], layout: Layout) -> Read:
    """Read the requested columns of each record; see `Read` for invalid rows."""

    def values(payload: bytes) -> list[Any] | None:
        record = parse_json(payload)
        return None if record is None else read_record(record, layout.columns, layout.wrapped)

    return read_one_by_one(payloads, layout, values)


def parse_json(payload: bytes) -> Any:
    """The first JSON value of a payload, None for an empty one. Raises RecordError when it is
    malformed."""
    try:
        return first_value(payload, _DECODER)
    except (ValueError, RecursionError, decimal.InvalidOperation) as error:
        raise RecordError(f"the bytes are not JSON: {error}") from error


def read_record(record: Any, columns: Sequence[Column], wrapped: bool) -> list[Any]:
    """The values of `columns` in a parsed record."""
    if not wrapped:
        return [_at(column.name, record, column.type) for column in columns]
    if not isinstance(record, dict):
        raise RecordError(f"expected a JSON object, got {_kind(record)}")
    fields = _Fields(record)
    return [_at(column.name, fields.get(column.name), column.type) for column in columns]


class _Fields:
    """Looks fields up by the rule for names; the upper-cased names are computed on first use."""

    __slots__ = ("_exact", "_upper")

    def __init__(self, exact: Mapping[str, Any]) -> None:
        self._exact = exact
        self._upper: dict[str, Any] | None = None

    def get(self, name: str) -> Any:
        if name in self._exact:
            return self._exact[name]
        if self._upper is None:
            self._upper = {field.upper(): value for field, value in self._exact.items()}
        return self._upper.get(name)


def _at(name: str, value: Any, sql_type: SqlType) -> Any:
    try:
        return coerce(value, sql_type)
    except RecordError as error:
        raise RecordError(f"{name}: {error.message}") from error


def coerce(value: Any, sql_type: SqlType) -> Any:
    """A parsed JSON value as pyarrow accepts it for a column of the type; raises RecordError if it
    is invalid."""
    if value is None:
        return None
    match sql_type:
        case Primitive():
            return _coerce_primitive(value, sql_type)
        case Decimal(precision, scale):
            return fit_decimal(_number(value, _DECIMAL, sql_type), precision, scale)
        case Array(element) if isinstance(value, list):
            return [coerce(item, element) for item in value]
        case Map(_, member) if isinstance(value, dict):
            return [(key, coerce(item, member)) for key, item in value.items()]
        case Struct(members) if isinstance(value, dict):
            fields = _Fields(value)
            names = physical_names(member.name for member in members)
            return {
                name: _at(member.name, fields.get(member.name), member.type)
                for name, member in zip(names, members, strict=True)
            }
    return _mismatch(value, sql_type)


def _coerce_primitive(value: Any, sql_type: Primitive) -> Any:
    match sql_type:
        case Primitive.STRING:
            return json_display(value)
        case Primitive.BOOLEAN:
            return value if isinstance(value, bool) else _mismatch(value, sql_type)
        case Primitive.INTEGER | Primitive.BIGINT:
            return _integer(value, sql_type, _RANGES[sql_type])
        case Primitive.DOUBLE:
            return float(_number(value, _DOUBLE, sql_type))
        case Primitive.BYTES:
            return _bytes(value)
        case Primitive.DATE | Primitive.TIME | Primitive.TIMESTAMP:
            return temporal(_integer(value, sql_type, 2**63), sql_type)
    return _mismatch(value, sql_type)


def temporal(number: int, sql_type: Primitive) -> Any:
    """A DATE from days, a TIME from ms of the day, a TIMESTAMP from ms, as pyarrow's integers."""
    limits = {Primitive.DATE: 2**31, Primitive.TIMESTAMP: 2**63 // 1000}
    if sql_type is Primitive.TIME:
        if not 0 <= number < 86_400_000:
            raise RecordError(f"{number} ms is not a time of day")
        return number * 1000
    if not -limits[sql_type] <= number < limits[sql_type]:
        raise RecordError(f"{number} does not fit into a {sql_type}")
    return number if sql_type is Primitive.DATE else number * 1000


def fit_decimal(number: decimal.Decimal, precision: int, scale: int) -> decimal.Decimal:
    """The number with exactly `scale` digits after the point; raises RecordError if digits are
    lost."""
    if not number.is_finite():
        raise RecordError(f"{number} is not a DECIMAL({precision}, {scale})")
    try:
        fitted = number.quantize(decimal.Decimal(1).scaleb(-scale), context=_CONTEXT)
    except decimal.InvalidOperation:
        fitted = decimal.Decimal("Infinity")
    if fitted != number or len(fitted.as_tuple().digits) > precision:
        raise RecordError(f"{number} does not fit into DECIMAL({precision}, {scale}) as it is")
    return fitted


def json_display(value: Any) -> str:
    """The text of a STRING column: scalars as they are, objects as JSON, arrays item by item."""
    match value:
        case str():
            return _without_surrogates(value)
        case dict():
            return json_text(value)
        case list():
            return f"[{', '.join(map(json_display, value))}]"
    return json_text(value)


def json_text(value: Any) -> str:
    """A parsed JSON value as compact text, with its fields in input order and its numbers as
    written."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(_without_surrogates(value), ensure_ascii=False)
        case dict():
            members = (f"{json_text(key)}:{json_text(item)}" for key, item in value.items())
            return f"{{{','.join(members)}}}"
        case list():
            return f"[{','.join(map(json_text, value))}]"
    return str(value)


def _without_surrogates(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def _parse_int(text: str) -> int | decimal.Decimal:
    # Beyond 4300 digits int() refuses.
    return int(text) if len(text) < 4000 else decimal.Decimal(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"unexpected {text}")


_DECODER = json.JSONDecoder(
    parse_float=_CONTEXT.create_decimal,
    parse_int=_parse_int,
    parse_constant=_refuse,
)


def _number(value: Any, pattern: re.Pattern[str], sql_type: SqlType) -> decimal.Decimal:
    if isinstance(value, str):
        if pattern.fullmatch(value) is None:
            return _mismatch(value, sql_type)
        return decimal.Decimal(value.strip("\x00\x01 \t\r\n\f\v").rstrip("fFdD"))
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        return _mismatch(value, sql_type)
    return decimal.Decimal(value)


def _integer(value: Any, sql_type: SqlType, limit: int) -> int:
    if isinstance(value, str):
        number = int(value) if _INTEGER.fullmatch(value) else _mismatch(value, sql_type)
    elif isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        number = _mismatch(value, sql_type)
    elif isinstance(value, decimal.Decimal) and (value.is_infinite() or value.adjusted() > 20):
        number = limit
    else:
        number = int(value)
    if not -limit <= number < limit:
        raise RecordError(f"{value} does not fit into {sql_type}")
    return number


def _bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        return _mismatch(value, Primitive.BYTES)
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RecordError(f"'{value}' is not base64 text") from error


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return names.get(type(value), "a number")


def _mismatch(value: Any, sql_type: SqlType) -> NoReturn:
    shown = json_text(value)
    shown = shown if len(shown) <= 100 else shown[:100] + "…"
    raise RecordError(f"cannot read {_kind(value)} as {sql_type}: {shown}")

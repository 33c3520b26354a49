"""Values as JSON: exact decimals, base64 bytes, ISO times (reference: types and formats, 1)."""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from millstream.model import types as t
from millstream.model.iso_times import iso_date, iso_of_duckdb, iso_timestamp
from millstream.model.physical import physical_names
from millstream.model.python_values import counted
from millstream.model.schema import Schema
from millstream.model.types import SqlType

Show = Callable[[Any], str]


def text_of(value: Any) -> str:
    """A JSON object of ours as text."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def row_texts(table: pa.Table, schema: Schema) -> Iterator[str]:
    """Each row as the text of a JSON array. `table` begins with the columns of `schema`."""
    columns = [map(shower(kind), values) for kind, values in column_values(table, schema)]
    if not columns:
        return iter(["[]"] * table.num_rows)
    return map("[{}]".format, map(",".join, zip(*columns, strict=True)))


def column_values(table: pa.Table, schema: Schema) -> Iterator[tuple[SqlType, list[Any]]]:
    """The columns of a table that begins with those of `schema`: their types, and their values as
    `counted` gives them."""
    for index, column in enumerate(schema.columns):
        values = counted(table.column(index))
        yield column.type, values.to_pylist(maps_as_pydicts="lossy")


def texts_of(rows: Sequence[Sequence[Any]], schema: Schema) -> list[str]:
    """As `row_texts`, of rows of Python values as DuckDB gives them; these begin with the columns
    of `schema`."""
    shown = [
        map(shower(column.type), values)
        for column, values in zip(schema.columns, zip(*rows, strict=True), strict=False)
    ]
    return list(map("[{}]".format, map(",".join, zip(*shown, strict=True))))


def shower(kind: SqlType) -> Show:
    """The encoder of a type, for values as `counted` gives them; NULL is `null` in all types."""
    inner = _bare(kind)
    return lambda value: "null" if value is None else inner(value)


def _bare(kind: SqlType) -> Show:
    match kind:
        case t.Array(element):
            each = shower(element)
            return lambda values: f"[{','.join(map(each, values))}]"
        case t.Map(key, value):
            name, member = _key(key), shower(value)
            return lambda found: _object((name(k), member(v)) for k, v in found.items())
        case t.Struct(fields):
            names = physical_names(item.name for item in fields)
            shown = [
                (json.dumps(item.name, ensure_ascii=False), physical, shower(item.type))
                for item, physical in zip(fields, names, strict=True)
            ]
            return lambda row: _object((name, show(row[at])) for name, at, show in shown)
        case t.Decimal():
            return _decimal
    return _PRIMITIVES.get(kind, _string)


def _key(kind: SqlType) -> Show:
    """A key of a MAP: always a string."""
    show = _bare(kind)

    def named(value: Any) -> str:
        if value is None:
            return '"null"'
        text = show(value)
        return text if text.startswith('"') else json.dumps(text, ensure_ascii=False)

    return named


def _object(members: Iterator[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{name}:{value}" for name, value in members) + "}"


def _string(value: Any) -> str:
    return json.dumps(str(value), ensure_ascii=False)


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _double(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _bytes(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _date(value: Any) -> str:
    """From days; or a value of DuckDB's, see `_timestamp`."""
    if isinstance(value, int):
        return f'"{iso_date(value)}"'
    return f'"{iso_of_duckdb(value) if isinstance(value, str) else value.isoformat()}"'


def _time(value: datetime.time) -> str:
    return f'"{value.isoformat("milliseconds" if value.microsecond else "seconds")}"'


def _timestamp(value: Any) -> str:
    """From microseconds; or a value of DuckDB's, which is text where Python has none."""
    if isinstance(value, int):
        return f'"{iso_timestamp(value)}"'
    if isinstance(value, str):
        return f'"{iso_of_duckdb(value)}"'
    return f'"{value.isoformat(timespec="milliseconds")}"'


_PRIMITIVES: dict[SqlType, Show] = {
    t.BOOLEAN: _boolean,
    t.INTEGER: str,
    t.BIGINT: str,
    t.DOUBLE: _double,
    t.STRING: _string,
    t.BYTES: _bytes,
    t.DATE: _date,
    t.TIME: _time,
    t.TIMESTAMP: _timestamp,
}

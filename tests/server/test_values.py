"""Values as JSON texts."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from millstream.model import types as t
from millstream.model.java_time import days_from_civil
from millstream.model.physical import arrow_type
from millstream.model.schema import Column, Schema
from millstream.model.shown_types import sql_type_of
from millstream_server.entities.shapes import schema_object
from millstream_server.results.values import row_texts, texts_of

TIME = datetime.datetime(2024, 2, 29, 13, 5, 6, 789000)
MAP, LIST = t.Map(t.STRING, t.DOUBLE), t.Array(t.TIMESTAMP)
STRUCT = t.Struct((t.Field("A", t.INTEGER), t.Field("b", t.BYTES)))


def shown(kind: t.SqlType, value: Any) -> str:
    table = pa.table([pa.array([value], arrow_type(kind))], names=["c"])
    (text,) = row_texts(table, Schema((Column("C", kind),)))
    json.loads(text)
    return text[1:-1]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (t.INTEGER, -3, "-3"),
        (t.BIGINT, 2**63 - 1, "9223372036854775807"),
        (t.DOUBLE, 0.1, "0.1"),
        (t.DOUBLE, float("nan"), '"NaN"'),
        (t.DOUBLE, float("-inf"), '"-Infinity"'),
        (t.BOOLEAN, True, "true"),
        (t.STRING, 'say "ü"\n', '"say \\"ü\\"\\n"'),
        (t.STRING, None, "null"),
        (t.Decimal(8, 3), Decimal("1.500"), "1.500"),
        (t.Decimal(30, 0), Decimal("9" * 30), "9" * 30),
        (t.BYTES, b"\x00\xff", '"AP8="'),
        (t.DATE, TIME.date(), '"2024-02-29"'),
        (t.TIME, datetime.time(13, 5), '"13:05:00"'),
        (t.TIME, datetime.time(13, 5, 6, 700000), '"13:05:06.700"'),
        (t.TIMESTAMP, TIME, '"2024-02-29T13:05:06.789"'),
        (LIST, [TIME, None], '["2024-02-29T13:05:06.789",null]'),
        (MAP, {"k": 1.0, "": None}, '{"k":1.0,"":null}'),
        (t.Map(t.INTEGER, t.STRING), {7: "x"}, '{"7":"x"}'),
        (STRUCT, {"A": 1, "b": b"x"}, '{"A":1,"b":"eA=="}'),
        (STRUCT, None, "null"),
    ],
)  # fmt: skip
def test_a_value_is_shown(kind: t.SqlType, value: Any, text: str) -> None:
    assert shown(kind, value) == text


ODD = [
    ((10_000, 1, 1), "+10000-01-01"),
    ((287_168, 8, 24), "+287168-08-24"),
    ((1, 1, 1), "0001-01-01"),
    ((0, 12, 31), "0000-12-31"),
    ((-1, 12, 31), "-0001-12-31"),
    ((-4_712, 1, 1), "-4712-01-01"),
]


@pytest.mark.parametrize(("date", "text"), ODD)
def test_times_beyond_those_of_python(date: tuple[int, int, int], text: str) -> None:
    days = days_from_civil(*date)
    micros = (days * 86_400_000 + 47_106_789) * 1000
    day, time = f'"{text}"', f'"{text}T13:05:06.789"'
    assert shown(t.DATE, days) == day
    assert shown(t.TIMESTAMP, micros) == time
    assert shown(LIST, [micros, None, 0]) == f'[{time},null,"1970-01-01T00:00:00.000"]'
    assert shown(t.Map(t.STRING, t.DATE), {"a": days}) == f'{{"a":{day}}}'
    assert shown(t.Struct((t.Field("A", t.TIMESTAMP),)), {"A": micros}) == f'{{"A":{time}}}'
    # As DuckDB gives them, by another way.
    found = duckdb.execute("SELECT make_timestamp(?), DATE '1970-01-01' + ?", [micros, days])
    schema = Schema((Column("T", t.TIMESTAMP), Column("D", t.DATE)))
    assert texts_of(found.fetchall(), schema) == [f"[{time},{day}]"]


def test_rows_of_no_columns_are_empty_arrays() -> None:
    table = pa.table({"$diff": pa.array([1, 1])})
    assert list(row_texts(table, Schema(()))) == ["[]", "[]"]


def test_schemas_are_objects_within_objects() -> None:
    assert schema_object(t.Array(t.Decimal(4, 2))) == {
        "type": "ARRAY",
        "fields": None,
        "memberSchema": {
            "type": "DECIMAL",
            "fields": None,
            "memberSchema": None,
            "parameters": {"precision": 4, "scale": 2},
        },
    }
    assert schema_object(STRUCT)["fields"][1] == {
        "name": "b",
        "schema": {"type": "BYTES", "fields": None, "memberSchema": None},
    }


@pytest.mark.parametrize("kind", [t.INTEGER, t.BIGINT, t.DOUBLE, t.BYTES, LIST, MAP, STRUCT])
def test_arrow_types_lead_back_to_sql(kind: t.SqlType) -> None:
    assert sql_type_of(arrow_type(kind)) == kind

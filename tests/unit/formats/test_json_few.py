"""A few records are written row by row: the same text as SQL makes of many."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats.json_few import write_few
from millstream.formats.json_text import write_by_sql, write_many
from millstream.formats.payload import Layout
from millstream.model.physical import arrow_type
from millstream.model.schema import Column
from millstream.model.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INTEGER,
    STRING,
    TIME,
    TIMESTAMP,
    Array,
    Decimal,
    SqlType,
)
from tests.draws import draws

CON = duckdb.connect(config={"threads": 1})
MS = datetime.timedelta(milliseconds=1)
EPOCH = datetime.datetime(1970, 1, 1)
# The smallest numbers have more digits in Java than they need.
DOUBLES = st.floats(allow_subnormal=False) | st.sampled_from([1e7, 1e-3, 123456789.125, 1e22, 0.1])
VALUES: list[tuple[SqlType, st.SearchStrategy[Any]]] = [
    (BOOLEAN, st.booleans()),
    (INTEGER, st.integers(-(2**31), 2**31 - 1)),
    (BIGINT, st.integers(-(2**63), 2**63 - 1)),
    (DOUBLE, DOUBLES),
    (STRING, st.text(st.characters(exclude_categories=["Cs"]))),
    (STRING, st.sampled_from(["\x00", "\x1f\n\t", '"\\/', "é\u2028😀", "\x7f"])),
    (BYTES, st.binary()),
    (DATE, st.dates()),
    (TIME, st.integers(0, 86_399_999).map(lambda ms: (datetime.datetime.min + ms * MS).time())),
    (TIMESTAMP, st.integers(-(10**12), 10**13).map(lambda ms: EPOCH + ms * MS)),
    (Decimal(6, 2), st.decimals(-1000, 1000, places=2)),
    (Decimal(38, 0), st.integers(-(10**37), 10**37).map(decimal.Decimal)),
]  # fmt: skip


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize(("sql_type", "values"), VALUES, ids=lambda v: str(v)[:20])
@settings(max_examples=draws(60))
@given(data=st.data())
def test_as_sql_writes_it(
    sql_type: SqlType, values: st.SearchStrategy[Any], wrapped: bool, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=4))
    arrays = [pa.array(rows, arrow_type(sql_type))]
    columns = [Column('a "b"', sql_type)]
    if wrapped:
        arrays.append(pa.array([None] * len(rows), pa.int64()))
        columns.append(Column("N", BIGINT))
    layout = Layout(tuple(columns), (), wrapped)
    few = write_few(arrays, layout)
    assert few is not None
    many = write_many(CON, arrays, layout)
    many.validate(full=True)
    assert few.to_pylist() == many.to_pylist() == write_by_sql(CON, arrays, layout).to_pylist()


MIXED = (
    Column("T", STRING),
    Column("N", BIGINT),
    Column("I", INTEGER),
    Column("B", BOOLEAN),
    Column("D", DOUBLE),
    Column("É", Array(STRING)),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    ["\x00", '0123456789abcde"', "0123456789abcdef\\", "x" * 33 + "\n", "é" * 17]
)
ROW = st.tuples(
    st.none() | TEXTS,
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.booleans(),
    st.none() | DOUBLES,
    st.none() | st.lists(st.none() | TEXTS, max_size=2),
)


@settings(max_examples=draws(200))
@given(st.lists(ROW, min_size=1, max_size=12), st.integers(0, 11))
def test_records_are_joined_as_sql_writes_them(rows: list[tuple[Any, ...]], start: int) -> None:
    start = min(start, len(rows) - 1)
    arrays = [
        pa.array(values, arrow_type(column.type)).slice(start)
        for column, values in zip(MIXED, zip(*rows, strict=True), strict=True)
    ]
    layout = Layout(MIXED)
    joined = write_many(CON, arrays, layout)
    joined.validate(full=True)
    assert joined.to_pylist() == write_by_sql(CON, arrays, layout).to_pylist()


def test_nested_values_are_left_to_sql() -> None:
    array = pa.array([[1]], pa.list_(pa.int32()))
    assert write_few([array], Layout((Column("A", Array(INTEGER)),))) is None

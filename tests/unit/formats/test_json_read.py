"""Reading JSON: the fast way must give what the exact way gives, whatever the records are."""

from __future__ import annotations

import json
import math

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats.json import read_json
from millstream.formats.json_rows import read_json_rows
from millstream.formats.payload import Layout, Read
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
    Field,
    Map,
    SqlType,
    Struct,
)
from tests.draws import draws

CON = duckdb.connect(config={"threads": 1})
NESTED = Struct((Field("F", Struct((Field("G", BOOLEAN), Field("H", Array(STRING))))),))
TYPES: list[SqlType] = [
    BOOLEAN,
    INTEGER,
    BIGINT,
    DOUBLE,
    Decimal(4, 2),
    Decimal(38, 0),
    Decimal(2, 2),
    STRING,
    BYTES,
    DATE,
    TIME,
    TIMESTAMP,
    Array(INTEGER),
    Array(STRING),
    Map(STRING, DOUBLE),
    Map(STRING, Array(BIGINT)),
    Struct((Field("F", INTEGER), Field("G", STRING))),
    Struct((Field("F", INTEGER), Field("f", INTEGER))),
    Array(Struct((Field("F", DOUBLE),))),
    NESTED,
    Array(DATE),
    Struct((Field("T", TIMESTAMP),)),
]

TOKENS = """0 -0 1 12 -7 1.7 2.0 1.50 1.234 1e2 1E+2 1e400 2147483647 2147483648 -2147483648 99.99
    9223372036854775807 9223372036854775808 99999999999999999999999 0.1 123456789.123456789 1.005
    5e-324 4.35 86399999 86400000 18690 1650000000000 true false null NaN Infinity 01 +1 .5 1. -
    "" "a" "12" "-7" "1.50" "NaN" "true" "x,y" "IQ==" "IQ" "\\u00e9" "\\ud83d\\ude00" "\\ud800"
    "\\n\\t\\"" "é" "😀" "\\u0000" "1_000" "0x1F" "1e2" "Infinity" "2021-03-04" [] {} [1] [1,2]
    [1,null] ["a","b"] [null] [[1]] [1.0] [true] {"a":1} {"a":1.5,"b":null} {"a":1,"a":2}
    {"a":[1,2]} {"F":1,"G":"x"} {"f":1} {"F":1,"f":2} {"G":1} {"F":{"G":true,"H":["x"]}}
    {"F":{"G":null,"H":null}} [{"F":1.5}] [{"F":1.5},{"f":2}] [{"F":null},null] {"T":5} [18690]
    {"F":"3"} {"b":{"c":[{"d":1}]}} \""""
tokens = st.sampled_from(TOKENS.split())
keys = st.sampled_from(
    ["A", "a", "B", "b", "Ab", "aB", "AB", "x", "X", "É", "é", "ß", '\\"', "\\u0041"]
)


@st.composite
def objects(draw: st.DrawFn) -> str:
    gap = draw(st.sampled_from(["", " ", "\n"]))
    pairs = draw(st.lists(st.tuples(keys, tokens), max_size=4))
    members = f",{gap}".join(f'"{key}":{gap}{token}' for key, token in pairs)
    return f"{{{gap}{members}{gap}}}"


records = st.one_of(objects(), objects(), objects(), tokens, st.sampled_from(["", " ", "{", "nul"]))


def check(payload: list[bytes | None], layout: Layout) -> None:
    rows = payload * (64 // len(payload) + 1)
    fast = read_json(CON, pa.array(rows, pa.binary()), layout)
    exact = read_json_rows(rows, layout)
    assert fast.bad == exact.bad
    assert fast.absent == exact.absent
    good = pa.array([row for row in range(len(rows)) if row not in exact.bad], pa.int64())
    for left, right, column in zip(fast.columns, exact.columns, layout.picked, strict=True):
        left.validate(full=True)
        left, right = left.take(good), right.take(good)
        assert left.type == right.type
        # NaN is not equal to itself, and Python has no dates after the year 9999.
        assert left.equals(right) or left.to_string(window=99) == right.to_string(window=99), column


@settings(max_examples=draws(300))
@given(
    st.lists(records, min_size=1, max_size=6),
    st.lists(st.sampled_from(TYPES), min_size=2, max_size=2),
    st.sampled_from([(), (0,), (1,), (0, 1)]),
)
def test_fast_equals_exact(texts: list[str], types: list[SqlType], wanted: tuple[int, ...]) -> None:
    columns = (Column("A", types[0]), Column("AB", types[1]))
    check([text.encode() for text in texts], Layout(columns, wanted))


@settings(max_examples=draws(150))
@given(st.sampled_from(TYPES), st.lists(tokens, min_size=1, max_size=4))
def test_fast_equals_exact_where_records_have_one_shape(
    sql_type: SqlType, texts: list[str]
) -> None:
    columns = (Column("A", sql_type), Column("B", STRING))
    check([f'{{"a":{text},"B":"x"}}'.encode() for text in texts], Layout(columns, (0, 1)))


@settings(max_examples=draws(150))
@given(st.sampled_from(TYPES), st.lists(tokens, min_size=1, max_size=4))
def test_fast_equals_exact_for_a_bare_value(sql_type: SqlType, texts: list[str]) -> None:
    layout = Layout((Column("A", sql_type),), (0,), wrapped=False)
    check([text.encode() for text in texts], layout)


def read_one(text: str, sql_type: SqlType) -> Read:
    return read_json_rows([text.encode()], Layout((Column("A", sql_type),), (0,)))


@pytest.mark.parametrize(
    ("text", "sql_type", "expected"),
    [
        ('{"a":"12"}', INTEGER, 12),
        ('{"A":2.0}', INTEGER, 2),
        ('{"A":{"p":1,"q":[1.50]}}', STRING, '{"p":1,"q":[1.50]}'),
        ('{"A":[1,"b",null]}', STRING, "[1, b, null]"),
        ('{"A":1.50}', STRING, "1.50"),
        ('{"A":true}', STRING, "true"),
        ('{"A":1,"a":2}', INTEGER, 1),
        ('{"a":1,"a":2}', INTEGER, 2),
        ('{"zz":1}', INTEGER, None),
        ('{"A":1} {', INTEGER, 1),
        ('{"A":1e9999999}', DOUBLE, math.inf),
        ('{"zz":1e9999999}', INTEGER, None),
    ],
)
def test_values(text: str, sql_type: SqlType, expected: object) -> None:
    assert read_one(text, sql_type).columns[0].to_pylist() == [expected]


@pytest.mark.parametrize(
    ("text", "sql_type", "reason"),
    [
        ('{"A":1.234}', Decimal(4, 2), "does not fit into DECIMAL(4, 2)"),
        ('{"A":true}', INTEGER, "a boolean as INTEGER"),
        ('{"A":1}', BOOLEAN, "a number as BOOLEAN"),
        ("12", INTEGER, "expected a JSON object"),
        ('{"A":2147483648}', INTEGER, "does not fit into INTEGER"),
        ('{"A":NaN}', DOUBLE, "not JSON"),
        ('{"A":1e9999999}', INTEGER, "does not fit into INTEGER"),
        ('{"A":-1e9999999}', Decimal(4, 2), "is not a DECIMAL"),
    ],
)
def test_refused(text: str, sql_type: SqlType, reason: str) -> None:
    assert reason in read_one(text, sql_type).bad[0]


def test_a_uniform_batch_is_read_at_once() -> None:
    rows = [json.dumps({"dateTime": i, "price": i / 4}).encode() for i in range(100)]
    columns = (Column("PRICE", DOUBLE), Column("DATETIME", TIMESTAMP))
    check([*rows, None, b'{"PRICE": "7"}', b"oops"], Layout(columns, (0, 1)))


def test_two_columns_may_share_a_field() -> None:
    columns = (Column("A", INTEGER), Column("a", INTEGER))
    check([b'{"a":1}', b'{"A":2}', b'{"A":3,"a":4}'], Layout(columns, (0, 1)))
    check([b'{"a":1}'], Layout(columns, (0, 1)))

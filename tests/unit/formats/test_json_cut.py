from __future__ import annotations

import json

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats.json import read_json
from millstream.formats.json_cut import cut_columns
from millstream.formats.json_rows import read_json_rows
from millstream.formats.json_shape import learn_shapes
from millstream.formats.payload import Layout
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
    Decimal,
    SqlType,
)

COLUMNS = (Column("N", BIGINT), Column("TEXT", STRING), Column("D", DOUBLE), Column("GONE", STRING))
TOKENS = {
    BOOLEAN: ["true", "false"],
    INTEGER: ["0", "-0", "2147483647", "-2147483648"],
    BIGINT: ["7", "-9223372036854775808", "9223372036854775807"],
    DOUBLE: ["1", "1.5", "1e2", "5e-324", "1.7976931348623157e308", "12345678901234567890123"],
    STRING: ['"a"', '""', '"a,b:{c}"', '"é😀"'],
    BYTES: ['""', '"IQ=="', '"aGVsbG8="'],
    DATE: ["0", "18690", "-1"],
    TIME: ["0", "86399999"],
    TIMESTAMP: ["0", "-5", "1650000000000"],
    Decimal(4, 2): ["0", "1.5", "-99.99"],
    Decimal(2, 2): ["0.25", "-0.10"],
    Decimal(38, 0): ["12345678901234567890123456789012345678"],
}
"""What is cut out of the text, by type."""


def read_by_cutting(texts: list[str], layout: Layout) -> dict[str, pa.Array] | None:
    shapes = learn_shapes([texts[0].encode()], layout)
    assert shapes is not None
    return cut_columns(pa.array(texts, pa.string()), layout, shapes)


def check(texts: list[str], layout: Layout) -> None:
    """A batch is read as its records are one by one."""
    payload = [text.encode() for text in texts]
    con = duckdb.connect(config={"threads": 1})
    fast = read_json(con, pa.array(payload, pa.binary()), layout)
    con.close()
    exact = read_json_rows(payload, layout)
    assert (fast.bad, fast.absent) == (exact.bad, exact.absent)
    for left, right in zip(fast.columns, exact.columns, strict=True):
        left.validate(full=True)
        assert left.to_string(window=99) == right.to_string(window=99)


@pytest.mark.parametrize("sql_type", list(TOKENS))
def test_each_type_is_cut_and_read_right(sql_type: SqlType) -> None:
    layout = Layout((Column("A", sql_type), Column("B", sql_type)), (0, 1))
    texts = [f'{{"a":{token},"x":1,"b":{token}}}' for token in TOKENS[sql_type] * 64]
    check(texts, layout)
    ordinary = [token for token in TOKENS[sql_type] if token != "-0"]
    assert read_by_cutting([f'{{"z":"","a":{token}}}' for token in ordinary], layout) is not None


def test_records_of_several_slices_are_put_together() -> None:
    rows = [json.dumps({"n": n, "text": f"t{n}"}, separators=(",", ":")) for n in range(9000)]
    found = read_by_cutting(rows, Layout(COLUMNS, (0, 1)))
    assert found is not None
    assert found["N"].to_pylist() == list(range(9000))
    assert found["TEXT"][8999].as_py() == "t8999"


@pytest.mark.parametrize(
    "odd",
    [
        '{"n":null,"text":"a","d":1.5}',
        '{"n":1,"text":null,"d":1.5}',
        '{"n":1,"text":"a","d":1e999}',
        '{"n":1,"text":"a","d":-0}',
        '{"n":9223372036854775808,"text":"a","d":1.5}',
    ],
)
def test_what_cannot_be_cut_is_left_to_others(odd: str) -> None:
    plain = '{"n":1,"text":"a","d":1.5}'
    layout = Layout(COLUMNS, (0, 1, 2))
    assert read_by_cutting([plain, odd], layout) is None
    assert read_by_cutting([odd, odd], layout) is None
    check([plain] * 70 + [odd], layout)
    check([odd] * 70, layout)


values = st.sampled_from(["1", "-0", "null", '""', '"q"', '"1"', "2.5", "1e400", "true", '"\\""'])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(values, values, values, values), min_size=1, max_size=3))
def test_quotes_in_unexpected_places(rows: list[tuple[str, str, str, str]]) -> None:
    plain = '{"u":"x","n":1,"v":2,"text":"y","d":0.5}'
    odd = [f'{{"u":{u},"n":{n},"v":{v},"text":{t},"d":0.5}}' for u, n, v, t in rows]
    check([plain] * 64 + odd, Layout(COLUMNS, (0, 1, 2, 3)))
    check([*odd, plain] * 40, Layout(COLUMNS, (0, 1)))

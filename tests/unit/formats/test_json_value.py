"""What lies behind the first value of a payload: read by one rule, whichever code reads it."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats import json_cut
from millstream.formats.json import leading_records, read_json
from millstream.formats.json_rows import parse_json, read_json_rows
from millstream.formats.json_shape import learn_shapes
from millstream.formats.library import compiled_formats
from millstream.formats.payload import Layout
from millstream.model.errors import RecordError
from millstream.model.schema import Column
from millstream.model.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, STRING, Array, SqlType
from tests.draws import draws
from tests.unit.formats.json_pieces import payloads

CON = duckdb.connect(config={"threads": 1})
WINDOW = bytes.fromhex("0000018bcfe56800")
BAD = object()


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (b'"a"', "a"),
        (b'"a"' + WINDOW, "a"),
        (b'"a"b', "a"),
        (b'{"a":1}' + WINDOW, {"a": 1}),
        (b'{"a":1} {', {"a": 1}),
        (b'{"a":1}}', {"a": 1}),
        (b"[1],", [1]),
        (b"[1]]", [1]),
        (b" \t\r\n12\n", 12),
        (b"12 x", 12),
        (b"12\x00", BAD),
        (b"12abc", BAD),
        (b"12,", BAD),
        (b"12]", BAD),
        (b'12"a"', BAD),
        (b"12" + WINDOW, BAD),
        (b"012", BAD),
        (b"1.", BAD),
        (b"true" + WINDOW, True),
        (b"true,", True),
        (b'true"a"', True),
        (b"true]", True),
        (b"true:", True),
        (b"truefalse", BAD),
        (b"true1", BAD),
        (b"true_", BAD),
        (b"true\x7f", BAD),
        (b"true\xc3\xa9", BAD),
        (b"null\x00", None),
        (b"nullx", BAD),
        (b"", None),
        (b" \n\t\r", None),
        (b"\x00", BAD),
        (b"\x0c1", BAD),
        (b"\xef\xbb\xbf12", 12),
        (b"\xef\xbb\xbf  ", None),
        (b"1\xef\xbb\xbf", BAD),
        ("[true]".encode("utf-16"), [True]),
        ('{"a":"é"}x'.encode("utf-16-be"), {"a": "é"}),
        ('"é"'.encode("utf-32-le"), "é"),
        (b"\x00\x001\x00", BAD),
        (b'"\xff"', BAD),
        (b'"a"\xff', "a"),
        (b'"a\xc3"', BAD),
        (b',"a"', BAD),
        (b"[1,]x", BAD),
        (b"[" * 500 + b"]" * 500, ...),
        (b"[" * 501 + b"]" * 501, BAD),
        (b'"' + b"[" * 501 + b'"', "[" * 501),
        (b"1 " + b"[" * 501, 1),
    ],
)
def test_the_first_value(payload: bytes, value: Any) -> None:
    if value is BAD:
        with pytest.raises(RecordError, match="not JSON"):
            parse_json(payload)
    else:
        found = parse_json(payload)
        assert value is ... or (found == value and type(found) is type(value))


TYPES: list[SqlType] = [STRING, INTEGER, BIGINT, BOOLEAN, DOUBLE, Array(INTEGER)]


def check(rows: list[bytes], layout: Layout) -> None:
    """A batch is read as its records are one by one, by compiled code and without."""
    exact = read_json_rows(rows, layout)
    library = compiled_formats()
    for code in (library, None):
        with patch.object(json_cut, "compiled_formats", return_value=code):
            found = read_json(CON, pa.array(rows, pa.binary()), layout)
        assert (found.bad, found.absent) == (exact.bad, exact.absent)
        usable = pa.array([row for row in range(len(rows)) if row not in exact.bad], pa.int64())
        for left, right in zip(found.columns, exact.columns, strict=True):
            left.validate(full=True)
            left, right = left.take(usable), right.take(usable)
            assert left.to_string(window=99) == right.to_string(window=99)


@settings(max_examples=draws(200))
@given(
    st.lists(payloads(), min_size=1, max_size=6),
    st.sampled_from(TYPES),
    st.sampled_from([(), (0,)]),
)
def test_a_value_without_a_record(
    rows: list[bytes], sql_type: SqlType, wanted: tuple[int, ...]
) -> None:
    check(rows * (64 // len(rows) + 1), Layout((Column("K", sql_type),), wanted, wrapped=False))


@settings(max_examples=draws(200))
@given(
    st.lists(payloads(), min_size=1, max_size=6),
    st.integers(0, 64),
    st.sampled_from([(), (0,), (0, 1)]),
)
def test_records_with_bytes_behind_them(
    rests: list[bytes], plain: int, wanted: tuple[int, ...]
) -> None:
    record = b'{"a":7,"b":"x","c":1}'
    rows = [record + rest for rest in rests]
    layout = Layout((Column("A", INTEGER), Column("B", STRING)), wanted)
    check([record] * plain + rows * (64 // len(rows) + 1), layout)


@pytest.mark.parametrize("content", [b'"a"', b'{"K":"a"}'])
def test_bytes_behind_records_of_a_shape_are_cut_off_at_once(content: bytes) -> None:
    layout = Layout((Column("K", STRING),), (0,), wrapped=content.startswith(b"{"))
    rows = [content + WINDOW, content, b"?", content + b" x"] * 20
    shapes = learn_shapes(rows[:1], layout)
    assert shapes is not None
    found = leading_records(pa.array(rows, pa.binary()), shapes)
    assert found.to_pylist() == [content, content, None, content] * 20
    read = read_json(CON, pa.array(rows, pa.binary()), layout)
    assert list(read.bad) == list(range(2, 80, 4))
    assert read.columns[0].to_pylist() == ["a", "a", None, "a"] * 20

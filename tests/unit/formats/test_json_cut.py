from __future__ import annotations

import itertools
import json
import logging
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.formats import json_cut, library
from millstream.formats.json import read_json
from millstream.formats.json_rows import read_json_rows
from millstream.formats.json_shape import Shapes, learn_shapes
from millstream.formats.kafka import read_text
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
from tests.draws import draws

CON = duckdb.connect(config={"threads": 1})
COLUMNS = (Column("N", BIGINT), Column("TEXT", STRING), Column("D", DOUBLE), Column("GONE", STRING))
TOKENS: dict[SqlType, list[str]] = {
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


def cut_columns(text: pa.Array, shapes: Shapes) -> dict[str, pa.Array] | None:
    """Compiled code, where it was built, and numpy cut the same out of the text."""
    found = json_cut.cut_columns(text, shapes)
    with patch.object(json_cut, "compiled_formats", return_value=None):
        by_numpy = json_cut.cut_columns(text, shapes)
    assert (found is None) == (by_numpy is None)
    if found is not None and by_numpy is not None:
        assert list(found) == list(by_numpy)
        for name, array in found.items():
            array.validate(full=True)
            assert array.type == by_numpy[name].type
            assert array.equals(by_numpy[name])
    return found


def read_by_cutting(texts: list[str], layout: Layout) -> dict[str, pa.Array] | None:
    shapes = learn_shapes([texts[0].encode()], layout)
    assert shapes is not None
    return cut_columns(pa.array(texts, pa.string()), shapes)


def check(texts: list[str], layout: Layout) -> None:
    """A batch is read as its records are one by one."""
    check_bytes([text.encode() for text in texts], layout)


def check_bytes(payload: list[bytes], layout: Layout) -> None:
    """The same for records that may be no text."""
    fast = read_json(CON, pa.array(payload, pa.binary()), layout)
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
    rows = [json.dumps({"n": n, "text": f"t{n}"}, separators=(",", ":")) for n in range(20_000)]
    found = read_by_cutting(rows, Layout(COLUMNS, (0, 1)))
    assert found is not None
    assert found["N"].to_pylist() == list(range(20_000))
    assert found["TEXT"][19_999].as_py() == "t19999"


@pytest.mark.parametrize(
    "odd",
    [
        '{"n":"1","text":"a","d":1.5}',
        '{"n":1,"text":1,"d":1.5}',
        '{"n":1,"text":"\\u0061","d":1.5}',
        '{"n":1, "text":"a","d":1.5}',
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


@pytest.mark.parametrize("text", ['"IQ=="', "null"])
def test_null_is_cut(text: str) -> None:
    columns = tuple(Column(f"C{n}", sql_type) for n, sql_type in enumerate(TOKENS))
    layout = Layout(columns, tuple(range(len(columns))))
    rows = []
    for absent in (False, True):
        tokens = [
            text if sql_type in (STRING, BYTES) else "null" if absent else every[0]
            for sql_type, every in TOKENS.items()
        ]
        rows.append("{" + ",".join(f'"c{n}":{token}' for n, token in enumerate(tokens)) + "}")
    assert read_by_cutting(rows, layout) is not None
    check(rows * 40, layout)


def test_what_belongs_to_no_column_is_still_proved_to_be_json() -> None:
    layout = Layout(COLUMNS, (1,))
    plain = '{"z":1,"text":"a"}'
    for token in ["01", "+1", "-", ".5", "1.", "1e", "--1", "1-", "inf", "NaN", "nul", "", "1 "]:
        assert read_by_cutting([plain, f'{{"z":{token},"text":"a"}}'], layout) is None
    for token in ["-0", "0", "-12", "1234567890123456", "12345678901234567", "1.5e+3", "true"]:
        assert read_by_cutting([plain, f'{{"z":{token},"text":"a"}}'], layout) is not None
    only = read_by_cutting([plain] * 3, Layout(COLUMNS, ()))
    assert only == {}


UNREAD: dict[SqlType, tuple[str, list[str]]] = {
    INTEGER: ("2147483647", ["2147483648", "true", "[]", "1e10", '"x"']),
    BIGINT: ("-9223372036854775807", ["9223372036854775808", "99999999999999999999", "false"]),
    DOUBLE: ("1.5e300", ["true", '"x"', "{}"]),
    BOOLEAN: ("true", ["1", '"true"']),
    BYTES: ('"IQ=="', ['"IQ"', '"?"', "1"]),
    DATE: ("18690", ["2147483648", '"2021-03-04"']),
    TIME: ("86399999", ["86400000", "-1"]),
    TIMESTAMP: ("1650000000000", ["9223372036854776", "true"]),
    Decimal(4, 2): ("99.99", ["100", "1.234", "true", "1e9"]),
    Decimal(2, 2): ("0.25", ["1", "0.123"]),
}
"""What fits a column of the type, and what does not."""


@pytest.mark.parametrize("sql_type", list(UNREAD))
def test_unread_values_must_fit_their_column(sql_type: SqlType) -> None:
    good, misfits = UNREAD[sql_type]
    layout = Layout((Column("A", sql_type), Column("B", STRING)), (1,))
    rows = [f'{{"a":{token},"b":"x"}}' for token in (good, good)]
    assert read_by_cutting(rows, layout) is not None
    if '"' not in good:
        rows = [f'{{"a":{token},"b":"x"}}' for token in (good, "null")]
        assert read_by_cutting(rows, layout) is not None
    for misfit in misfits:
        odd = f'{{"a":{misfit},"b":"x"}}'
        assert read_by_cutting([rows[0], odd], layout) is None
        found = read_json(CON, pa.array([row.encode() for row in [rows[0]] * 70 + [odd]]), layout)
        assert list(found.bad) == [70]


@pytest.mark.parametrize(
    "cut_off", ['{"n":1,"text":"a""d"', '{"n":1,"text":"a","d":', '{"n""text":"a""d":1}', ""]
)
def test_a_record_that_ends_early_is_not_cut(cut_off: str) -> None:
    plain = '{"n":1,"text":"a","d":1.5}'
    for rows in ([plain, cut_off], [plain, cut_off, plain]):
        assert read_by_cutting(rows, Layout(COLUMNS, (0, 1, 2))) is None
        check(rows * 33, Layout(COLUMNS, (0, 1, 2)))


PARTLY = ((0, 1, 2, 3, 4), (0,), (1, 3), (2,), ())
MIXED = Layout((*COLUMNS[:3], Column("FLAG", BOOLEAN), Column("LAST", INTEGER)), PARTLY[0])
mixed = st.builds(
    '{{"n":{},"text":{},"x":{},"d":{},"y":{},"flag":{},"last":{}}}'.format,
    st.integers(-(2**63), 2**63 - 1) | st.just("null"),
    st.sampled_from(['""', '"a"', '"é"', '"},{"', '":1,"', '"null"']),
    st.sampled_from(["0", "-1", "1.5", "null", "true"]),
    st.floats(allow_nan=False, allow_infinity=False).filter(bool) | st.integers(0, 10**20),
    st.sampled_from(['""', '"z"', f'"{"0123456789" * 5}"']),
    st.sampled_from(["true", "false", "null"]),
    st.integers(-(2**31), 2**31 - 1) | st.just("null"),
)


@st.composite
def broken(draw: st.DrawFn) -> list[bytes]:
    """Records of one shape of which bytes were lost, doubled or changed, or went to a neighbour."""
    rows = [row.encode() for row in draw(st.lists(mixed, min_size=2, max_size=6))]
    ends = np.cumsum([len(row) for row in rows])
    whole = bytearray(b"".join(rows))
    odd = st.sampled_from(list(b'"{}:,\\ 019-+.enlu\t\x00\x80'))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(whole) - 2))
        piece = draw(st.sampled_from([b"", whole[place : place + 1] * 2]) | odd.map(lambda b: [b]))
        whole[place : place + 1] = piece
        ends[(ends > place) & draw(st.booleans())] += len(piece) - 1
    cuts = [0, *np.clip(np.maximum.accumulate(ends), 0, len(whole)).tolist()]
    return [bytes(whole[at:to]) for at, to in itertools.pairwise(cuts)]


@settings(max_examples=draws(400))
@given(broken(), st.sampled_from(PARTLY))
def test_broken_records_are_never_cut(rows: list[bytes], wanted: tuple[int, ...]) -> None:
    layout = replace(MIXED, wanted=wanted)
    shapes = learn_shapes(rows[:1], layout)
    text, bad = read_text(pa.array(rows, pa.binary()))
    found = None if shapes is None else cut_columns(text, shapes)
    exact = read_json_rows(rows, layout)
    if found is not None:
        assert shapes is not None
        assert not (exact.bad or bad)
        assert pc.all(pc.match_substring_regex(text, shapes.compact)).as_py()
        expected = dict(zip((c.name for c in layout.picked), exact.columns, strict=True))
        assert all(expected[name].equals(column) for name, column in found.items())


@settings(max_examples=draws(50))
@given(broken(), st.sampled_from(PARTLY))
def test_a_batch_with_broken_records_is_read_as_one_by_one(
    rows: list[bytes], wanted: tuple[int, ...]
) -> None:
    check_bytes(rows * 64, replace(MIXED, wanted=wanted))


@given(st.lists(mixed, min_size=1, max_size=6))
def test_whole_records_of_one_shape_are_cut(rows: list[str]) -> None:
    assert read_by_cutting(rows, MIXED) is not None


values = st.sampled_from(["1", "-0", "null", '""', '"q"', '"1"', "2.5", "1e400", "true", '"\\""'])


@settings(max_examples=draws(100))
@given(st.lists(st.tuples(values, values, values, values), min_size=1, max_size=3))
def test_quotes_in_unexpected_places(rows: list[tuple[str, str, str, str]]) -> None:
    plain = '{"u":"x","n":1,"v":2,"text":"y","d":0.5}'
    odd = [f'{{"u":{u},"n":{n},"v":{v},"text":{t},"d":0.5}}' for u, n, v, t in rows]
    check([plain] * 64 + odd, Layout(COLUMNS, (0, 1, 2, 3)))
    check([*odd, plain] * 40, Layout(COLUMNS, (0, 1)))


def test_a_part_of_an_array_is_cut() -> None:
    rows = [f'{{"n":{n},"text":"{"é" * n}"}}' for n in range(100)]
    text = pa.array(["{}", *rows, "{}"]).slice(1, 100)
    shapes = learn_shapes([rows[0].encode()], Layout(COLUMNS, (0, 1)))
    assert shapes is not None
    found = cut_columns(text, shapes)
    assert found is not None and found["N"].to_pylist() == list(range(100))
    assert found["TEXT"].to_pylist() == ["é" * n for n in range(100)]


def test_compiled_code_was_built() -> None:
    if library.compiled_formats() is None:
        pytest.skip("NOT BUILT: what cuts JSON by compiled code was not tested (CONTRIBUTING)")


def test_an_incompatible_library_is_reported_and_unused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "libmillstream_formats.so"
    other.write_bytes(b"no library")
    monkeypatch.setattr(library, "LIBRARY", other)
    with caplog.at_level(logging.WARNING):
        assert library.compiled_formats.__wrapped__() is None
    assert "Formats are read and written without compiled code" in caplog.text
    monkeypatch.setenv(library.SWITCH, "plain")
    assert library.compiled_formats.__wrapped__() is None

"""MSGPACK: what other programs write, the bytes, and that no bytes at all do harm."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.catalog.source import Format
from millstream.formats.msgpack import read_msgpack, write_msgpack
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
    Array,
    Decimal,
    Field,
    Map,
    SqlType,
    Struct,
)
from tests.draws import draws
from tests.unit.formats.test_formats import NESTED, SCALARS, raw, read, schema_of, values, written

FORM, NONE = Format("MSGPACK"), Format("NONE")
DAY = datetime.date(1970, 1, 2)
BEFORE = datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000)


@pytest.mark.parametrize(
    ("sql_type", "given", "expected"),
    [
        (BOOLEAN, True, True),
        (INTEGER, 2**31 - 1, 2**31 - 1),
        (INTEGER, "7", 7),
        (INTEGER, 7.9, 7),
        (BIGINT, -(2**63), -(2**63)),
        (DOUBLE, 1, 1.0),
        (DOUBLE, 0.1, 0.1),
        (DOUBLE, float("-inf"), float("-inf")),
        (DOUBLE, "1e3", 1000.0),
        (STRING, "é", "é"),
        (STRING, 1.5, "1.5"),
        (STRING, b"\xff", "/w=="),
        (STRING, {"a": [1, None, True]}, '{"a":[1,null,true]}'),
        (BYTES, b"\xff", b"\xff"),
        (BYTES, "/w==", b"\xff"),
        (DATE, 1, DAY),
        (TIME, 1000, datetime.time(0, 0, 1)),
        (TIMESTAMP, 1500, datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000)),
        (TIMESTAMP, msgpack.Timestamp(-1, 500_999_999), BEFORE),
        (Decimal(4, 2), "12.50", decimal.Decimal("12.50")),
        (Decimal(4, 2), 12.5, decimal.Decimal("12.50")),
        (Decimal(4, 2), 12, decimal.Decimal("12.00")),
        (Map(STRING, BYTES), {"a": b"x", "b": None}, [("a", b"x"), ("b", None)]),
        (Struct((Field("F", INTEGER),)), {"f": 1, "other": []}, {"F": 1}),
        (Array(DOUBLE), [1, 2.5], [1.0, 2.5]),
    ],
)  # fmt: skip
def test_what_others_write_is_read(sql_type: SqlType, given: Any, expected: Any) -> None:
    payload = msgpack.packb({"v0": given, "more": [1]})
    found = read(schema_of(sql_type), raw([(None, payload)]), NONE, FORM)
    assert found.problems == ()
    assert repr(found.table["V0"].to_pylist()) == repr([expected])


@pytest.mark.parametrize(
    ("sql_type", "payload", "reason"),
    [
        (INTEGER, msgpack.packb({"V0": 2**31}), "2147483648 does not fit into INTEGER"),
        (BIGINT, msgpack.packb({"V0": 2**64 - 1}), "does not fit into BIGINT"),
        (INTEGER, msgpack.packb({"V0": float("nan")}), "cannot read a string as INTEGER"),
        (Decimal(4, 2), msgpack.packb({"V0": 0.125}), "does not fit into DECIMAL(4, 2)"),
        (BOOLEAN, msgpack.packb({"V0": 1}), "cannot read a number as BOOLEAN"),
        (BYTES, msgpack.packb({"V0": "é"}), "is not base64 text"),
        (TIMESTAMP, msgpack.packb({"V0": msgpack.Timestamp(2**60)}), "does not fit"),
        (STRING, msgpack.packb({"V0": msgpack.ExtType(5, b"")}), "extension type 5 is unknown"),
        (STRING, msgpack.packb({b"V0": 1}), "a key of a map is not text"),
        (STRING, msgpack.packb({"V0": {1: 1}}), "not MessagePack: int is not allowed for map key"),
        (STRING, msgpack.packb([1]), "expected a JSON object, got an array"),
        (STRING, b"\x80\x00", "not MessagePack: unpack(b) received extra data"),
        (STRING, b"\x81\xa2V0\xa1\xff", "can't decode byte 0xff"),
        (STRING, b"\x81\xa2V0" + b"\x91" * 201 + b"\x01", "nested more than 200 deep"),
        (STRING, b"\x81\xa2V0" + b"\x91" * 9999 + b"\x01", "not MessagePack: StackError"),
        (STRING, b"\xc1", "not MessagePack: FormatError"),
        (STRING, b"\x81\xa2V0\xdd\xff\xff\xff\xff", "exceeds max_array_len"),
        (STRING, b"\x81\xa2V0\xdf\xff\xff\xff\xff", "exceeds max_map_len"),
        (STRING, b"\x81\xa2V0\xdb\xff\xff\xff\xff", "incomplete input"),
    ],
)
def test_what_cannot_be_read_is_a_problem(sql_type: SqlType, payload: bytes, reason: str) -> None:
    found = read(schema_of(sql_type), raw([(None, payload)]), NONE, FORM)
    (problem,) = found.problems
    assert reason in problem.message


def test_200_levels_are_read() -> None:
    payload = b"\x81\xa2V0" + b"\x91" * 199 + b"\x01"
    found = read(schema_of(STRING), raw([(None, payload)]), NONE, FORM)
    assert found.table["V0"].to_pylist() == ["[" * 199 + "1" + "]" * 199]


def test_nil_and_no_bytes_are_no_value() -> None:
    found = read(schema_of(STRING), raw([(None, b"\xc0"), (None, b"")]), NONE, FORM)
    assert found.problems == ()
    assert found.table["$diff"].to_pylist() == [0, 0]


def test_the_bytes_that_are_written() -> None:
    types = [INTEGER, DOUBLE, STRING, BYTES, DATE, TIME, TIMESTAMP, Decimal(4, 2), BOOLEAN]
    types += [Map(STRING, DATE), Struct((Field("a b", BYTES),))]
    row = [1, 0.1, "é", b"\xff", DAY, datetime.time(0, 0, 1), BEFORE, decimal.Decimal("1.50"), None]
    row += [[("x", DAY)], {"a b": b"y"}]
    schema = schema_of(*types)
    (payload,) = written(schema, [row], NONE, FORM).value.to_pylist()
    assert list(msgpack.unpackb(payload).items()) == [
        ("V0", 1),
        ("V1", 0.1),
        ("V2", "é"),
        ("V3", b"\xff"),
        ("V4", 1),
        ("V5", 1000),
        ("V6", msgpack.Timestamp(-1, 500_000_000)),
        ("V7", "1.50"),
        ("V8", None),
        ("V9", {"x": 1}),
        ("V10", {"a b": b"y"}),
    ]


def test_a_single_column_is_the_payload_where_it_is_not_wrapped() -> None:
    bare = Format("MSGPACK", wrap=False)
    payloads = written(schema_of(Array(INTEGER)), [[[1, None]], [None]], NONE, bare).value
    assert payloads.to_pylist() == [b"\x92\x01\xc0", None]


def test_a_record_without_columns_is_not_a_deletion() -> None:
    layout = Layout((Column("A", INTEGER),), (0,))
    assert read_msgpack(pa.array([b"\x80"]), layout).columns[0].to_pylist() == [None]
    assert write_msgpack([pa.nulls(1, pa.int32())], layout).to_pylist() == [b"\x81\xa1A\xc0"]


@settings(max_examples=draws(300))
@given(st.data())
def test_random_and_mutated_bytes_are_rows_or_problems(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from([*SCALARS, *NESTED]), min_size=1, max_size=4))
    schema = schema_of(*types)
    row = [data.draw(values(sql_type)) for sql_type in types]
    (payload,) = written(schema, [row], NONE, FORM).value.to_pylist()
    payload = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(payload)))
        match data.draw(st.sampled_from(["replace", "insert", "delete", "cut"])):
            case "replace":
                payload[at : at + 1] = data.draw(st.binary(min_size=1, max_size=1))
            case "insert":
                payload[at:at] = data.draw(st.binary(min_size=1, max_size=6))
            case "delete":
                del payload[at : at + data.draw(st.integers(1, 3))]
            case "cut":
                del payload[at:]
    noise = data.draw(st.binary(max_size=30))
    records = [(None, bytes(payload)), (None, noise), (None, b"\x80")]
    found = read(schema, raw(records), NONE, FORM)
    bad = {problem.offset for problem in found.problems}
    assert found.table["$offset"].to_pylist() == [at for at in range(3) if at not in bad]
    assert 2 not in bad
    assert {problem.kind for problem in found.problems} <= {"DESERIALIZATION"}

"""Values in PostgreSQL's formats, with psycopg, whose parser is compiled C, as the judge."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import Format

from millstream.model import types as t
from millstream.model.physical import arrow_type
from millstream.model.schema import Column, Schema
from millstream.model.types import SqlType
from millstream_server.postgres.arguments import arguments
from millstream_server.postgres.copying import CopyFormat
from millstream_server.postgres.refusals import PgError
from millstream_server.postgres.values import copied_lines, encoder, pg_type, rows_of

TIMES = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
DECIMALS = st.decimals(Decimal(-(10**14)), Decimal(10**14), places=6)
VALUES: dict[SqlType, st.SearchStrategy[Any]] = {
    t.BOOLEAN: st.booleans(),
    t.INTEGER: st.integers(-(2**31), 2**31 - 1),
    t.BIGINT: st.integers(-(2**63), 2**63 - 1),
    t.DOUBLE: st.floats(),
    t.STRING: st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    t.BYTES: st.binary(),
    t.DATE: st.dates(),
    t.TIME: st.times(),
    t.TIMESTAMP: TIMES.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
    t.Decimal(21, 6): DECIMALS,
}
KINDS = st.sampled_from([*VALUES, *(t.Array(kind) for kind in VALUES)])


def values_of(kind: SqlType) -> st.SearchStrategy[Any]:
    """Values of a type, NULL among them."""
    if isinstance(kind, t.Array):
        return st.none() | st.lists(values_of(kind.element), max_size=4)
    return st.none() | VALUES[kind]


def same(found: Any, expected: Any) -> bool:
    """Equality, in which NaN equals itself."""
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, float) and isinstance(expected, float) and math.isnan(expected):
        return math.isnan(found)
    return bool(found == expected)


def loaded(raw: bytes | None, kind: SqlType, form: int) -> Any:
    """What psycopg makes of a value."""
    if raw is None:
        return None
    loader = Transformer().get_loader(pg_type(kind).oid, Format(form))
    return loader.load(raw)


def written(value: Any, kind: SqlType, form: int) -> bytes | None:
    """The value as it is in a row."""
    table = pa.table({"c": pa.array([value], arrow_type(kind))})
    (row,) = rows_of(table, Schema((Column("C", kind),)), [form])
    length = int.from_bytes(row[7:11], signed=True)
    return None if length < 0 else row[11 : 11 + length]


@given(st.data(), st.sampled_from([0, 1]))
def test_psycopg_reads_what_is_written(data: st.DataObject, form: int) -> None:
    kind = data.draw(KINDS)
    value = data.draw(values_of(kind))
    assert same(loaded(written(value, kind, form), kind, form), value)


@given(st.data(), st.sampled_from([PyFormat.TEXT, PyFormat.BINARY]))
def test_what_psycopg_writes_is_read(data: st.DataObject, form: PyFormat) -> None:
    kind = data.draw(st.sampled_from([kind for kind in VALUES if kind is not t.BYTES]))
    value = data.draw(VALUES[kind])
    dumper = Transformer().get_dumper(value, form)
    raw = dumper.dump(value)
    (found,) = arguments([raw], [int(dumper.format)], [dumper.oid])
    assert same(found, value)


@given(st.binary(max_size=20), st.sampled_from([16, 20, 21, 23, 25, 26, 114, 700, 701, 705]))
def test_bytes_of_a_client_are_values_or_refused(raw: bytes, kind: int) -> None:
    for form in (0, 1):
        try:
            (found,) = arguments([raw], [form], [kind])
        except Exception as error:
            assert isinstance(error, PgError) or "UTF-8" in str(error)
        else:
            assert found is not None


@given(st.binary(max_size=30), st.sampled_from([1082, 1083, 1114, 1184, 1266, 1700, 2950, 3802]))
def test_bytes_of_times_and_numbers_are_values_or_refused(raw: bytes, kind: int) -> None:
    test_bytes_of_a_client_are_values_or_refused.hypothesis.inner_test(raw, kind)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ({"x": 1}, t.Map(t.STRING, t.INTEGER), '{"x":1}'),
        ([[1], []], t.Array(t.Array(t.INTEGER)), "[[1],[]]"),
        ([{"A": 1}], t.Array(t.Struct((t.Field("A", t.INTEGER),))), r'{"{\"A\":1}"}'),
        (-(10**6), t.DATE, "0769-02-04 BC"),
        (1_500_000, t.DATE, "6076-11-10"),
        (-62_135_596_800_001_000, t.TIMESTAMP, "0001-12-31 23:59:59.999 BC"),
        (1.0, t.DOUBLE, "1"),
        (float("-inf"), t.DOUBLE, "-Infinity"),
        (b"\x00\xff", t.BYTES, r"\x00ff"),
        (["NULL", "", "a b", None], t.Array(t.STRING), '{"NULL","","a b",NULL}'),
        (['q"\\', "ä", "{,}"], t.Array(t.STRING), r'{"q\"\\","ä","{,}"}'),
    ],
)  # fmt: skip
def test_text(value: Any, kind: SqlType, text: str) -> None:
    assert encoder(kind, 0)(value).decode() == text


def test_json_is_the_same_in_both_formats() -> None:
    kind = t.Struct((t.Field("A", t.STRING), t.Field("B", t.Array(t.DOUBLE))))
    value = {"A": 'q"', "B": [1.5, None]}
    for form in (0, 1):
        raw = written(value, kind, form)
        assert raw is not None
        assert json.loads(raw) == value


def test_lines_of_copy() -> None:
    table = pa.table({"a": ["x\ty", None, "\\N"], "b": pa.array([1, 2, None], pa.int32())})
    schema = Schema((Column("A", t.STRING), Column("B", t.INTEGER)))
    found = copied_lines(table, schema, CopyFormat())
    assert found == [b"x\\ty\t1\n", b"\\N\t2\n", b"\\\\N\t\\N\n"]


def test_an_oid_without_literals_is_refused() -> None:
    with pytest.raises(PgError, match="OID 600"):
        arguments([b"(1,2)"], [], [600])
    assert psycopg.postgres.types["point"].oid == 600

"""What a record as a whole becomes: event time, headers, NULL sides, tables and streams."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

from millstream.catalog.source import Format, TimestampColumn
from millstream.formats.codec import Decoded, DecodeSpec, decode
from millstream.model.batch import DIFF, PART, ROWTIME, raw_batch
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import BIGINT, BYTES, HEADERS, STRING, TIMESTAMP, SqlType

CON = duckdb.connect(config={"threads": 1})
JSON, KAFKA = Format("JSON"), Format("KAFKA")


def read(
    records: list[tuple[bytes | None, bytes | None, int]],
    columns: list[Column],
    *,
    headers: list[Any] | None = None,
    names: tuple[str, ...] | None = None,
    **more: Any,
) -> Decoded:
    schema = Schema.of([Column("K", STRING, Role.KEY), *columns])
    batch = raw_batch(records, headers)
    batch = batch.append_column(PART, pa.array([3] * len(records), pa.int32()))
    asked = tuple((name, name) for name in names or schema.names)
    return decode(CON, batch, DecodeSpec(KAFKA, JSON, schema, asked, **more), "t")


def test_streams_keep_records_without_key_or_value() -> None:
    found = read([(None, b'{"V":"a"}', 1), (b"k", None, 2), (None, None, 3)], [Column("V", STRING)])
    assert found.table.select(["K", "V", DIFF]).to_pydict() == {
        "K": [None, "k", None],
        "V": ["a", None, None],
        DIFF: [1, 0, 0],
    }
    assert found.problems == ()


def test_tables_need_a_key_and_a_null_value_deletes() -> None:
    records = [(None, b"{}", 1), (b"k", None, 2), (b"k", b"null", 3), (b"k", b"{}", 4)]
    found = read(records, [Column("V", STRING)], is_table=True)
    assert found.table[DIFF].to_pylist() == [0, 0, 1]
    assert [(problem.kind, problem.offset) for problem in found.problems] == [("NULL_KEY", 0)]


def test_pseudo_columns_and_only_what_is_asked_for() -> None:
    names = ("ROWTIME", "ROWPARTITION", "ROWOFFSET")
    found = read([(b"k", b"{}", 7)] * 2, [Column("V", STRING)], names=names)
    assert found.table.select(names).to_pydict() == {
        "ROWTIME": [7, 7],
        "ROWPARTITION": [3, 3],
        "ROWOFFSET": [0, 1],
    }
    assert "V" not in found.table.column_names


@pytest.mark.parametrize(
    ("sql_type", "pattern", "texts", "times"),
    [
        (BIGINT, None, ["5", "-1", "null"], [5]),
        (TIMESTAMP, None, ["5", "-1", "null"], [5]),
        (STRING, "yyyy-MM-dd HH:mm:ssX", ['"1970-01-01 01:00:01+01"', '"no"', "null"], [1000]),
        (STRING, "yyyy-MM-dd", ['"1970-01-02"', '"1969-12-31"', '""'], [86_400_000]),
    ],
)
def test_event_time_from_a_column(
    sql_type: SqlType, pattern: str | None, texts: list[str], times: list[int]
) -> None:
    records = [(b"k", f'{{"TS":{text}}}'.encode(), 9) for text in texts]
    timestamp = TimestampColumn("TS", pattern)
    found = read(records, [Column("TS", sql_type)], names=("K",), timestamp=timestamp)
    assert found.table[ROWTIME].to_pylist() == times
    assert [(problem.kind, problem.offset) for problem in found.problems] == [
        ("TIMESTAMP", 1),
        ("TIMESTAMP", 2),
    ]


def test_deletions_keep_the_time_they_were_sent_with() -> None:
    columns = [Column("TS", BIGINT)]
    found = read([(b"k", None, 9)], columns, timestamp=TimestampColumn("TS"), is_table=True)
    assert found.table[ROWTIME].to_pylist() == [9]


def test_header_columns() -> None:
    columns = [
        Column("H", HEADERS, Role.HEADERS),
        Column("A", BYTES, Role.HEADERS, header="a"),
    ]
    headers = [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}, {"key": "a", "value": b"2"}],
        None,
        [{"key": "b", "value": b"3"}],
    ]
    found = read([(b"k", b"{}", 1)] * 3, columns, headers=headers).table.to_pydict()
    assert found["A"] == [b"2", None, None]
    assert [len(entries) for entries in found["H"]] == [3, 0, 1]
    assert found["H"][2] == [{"KEY": "b", "VALUE": b"3"}]


def test_partitions_stay_with_their_rows() -> None:
    batch = raw_batch([(b"a", b"{}", 1), (b"b", b"{", 1), (b"c", b"{}", 1)])
    batch = batch.append_column(PART, pa.array([0, 1, 2], pa.int32()))
    schema = Schema.of([Column("K", STRING, Role.KEY), Column("V", STRING)])
    found = decode(CON, batch, DecodeSpec(KAFKA, JSON, schema, (("k", "K"),)), "t")
    assert found.table.select(["k", PART]).to_pydict() == {"k": ["a", "c"], PART: [0, 2]}
    assert found.problems[0].partition == 1

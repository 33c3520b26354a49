"""PRINT of records whose schemas are in a registry."""

from __future__ import annotations

import struct

import pytest

import millstream
from millstream import Database, Stream
from millstream.model.schema_text import SchemaText
from tests.appending import append

CREATED = (
    "CREATE STREAM s (id INT KEY, n BIGINT, tags ARRAY<STRING>, more MAP<STRING, INT>,"
    " price DECIMAL(4, 2), day DATE, lives STRUCT<town STRING>) WITH (KAFKA_TOPIC='s',"
    " PARTITIONS=1, FORMAT='{0}');"
    "INSERT INTO s VALUES (7, 5, ARRAY['x', 'y'], MAP('k' := 1), 1.50, '2024-02-29',"
    " STRUCT(town := 'Bern'));"
)


def printed(db: Database, sql: str) -> list[str]:
    result = db.execute(sql)
    assert isinstance(result, Stream)
    return [row[0] for row in result]


@pytest.mark.parametrize(
    ("form", "key", "value"),
    [
        (
            "AVRO",
            "7",
            '{"N": 5, "TAGS": ["x", "y"], "MORE": {"k": 1}, "PRICE": "1.50", "DAY": "2024-02-29",'
            ' "LIVES": {"TOWN": "Bern"}}',
        ),
        (
            "PROTOBUF",
            '{"ID": 7}',
            '{"N": 5, "TAGS": ["x", "y"], "MORE": {"k": 1}, "PRICE": "1.50", "DAY": "2024-02-29",'
            ' "LIVES": {"TOWN": "Bern"}}',
        ),
        (
            "JSON_SR",
            "7",
            '{"N": 5, "TAGS": ["x", "y"], "MORE": {"k": 1}, "PRICE": 1.5, "DAY": 19782, "LIVES":'
            ' {"TOWN": "Bern"}}',
        ),
    ],
)
def test_formats_are_told_by_the_schemas(form: str, key: str, value: str) -> None:
    with millstream.connect() as db:
        db.execute(CREATED.format(form))
        lines = printed(db, "PRINT s FROM BEGINNING LIMIT 1;")
    # Eight bytes may be numbers, too.
    assert lines[0].startswith(f"Key format: {form}") and lines[1] == f"Value format: {form}"
    assert f"key: {key}, value: {value}, partition: 0" in lines[2]


def test_payloads_that_only_begin_like_them() -> None:
    """Of an id that nobody knows, cut off, or of another kind: they are shown as bytes."""
    with millstream.connect() as db:
        db.execute(
            "CREATE STREAM s (n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='AVRO');"
        )
        assert db.engine.schemas is not None
        odd = db.engine.schemas.register("o", SchemaText("AVRO", '"null"')).id
        for payload in (b"\0\0\0\0\x63ab", struct.pack(">bI", 0, 1) + b"\2", b"\0\0"):
            append(db, "s", payload)
        append(db, "s", struct.pack(">bI", 0, odd) + b"")
        lines = printed(db, "PRINT s FROM BEGINNING LIMIT 4;")
    assert lines[1] == "Value format: bytes"
    assert [line.split("value: ")[1].split(",")[0] for line in lines if "value: " in line] == [
        *("00 00 00 00 63 61 62", "00 00 00 00 01 02", "00 00", "00 00 00 00 02"),
    ]


def test_texts_and_numbers_are_guessed_in_ksqldb_s_order() -> None:
    with millstream.connect() as db:
        db.execute(
            "CREATE STREAM s (n STRING) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='KAFKA');"
        )
        append(db, "s", b"text", b"longer")
        lines = printed(db, "PRINT s FROM BEGINNING LIMIT 2;")
    assert lines[1] == "Value format: KAFKA_INT or KAFKA_STRING"
    assert "value: text" in lines[2], "although it could be a number"
    assert lines[3] == "Value format: KAFKA_STRING"

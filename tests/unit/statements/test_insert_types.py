"""INSERT VALUES: which constants each type accepts, and how the others are refused (reference:
types and formats, 2)."""

from __future__ import annotations

import pytest

from millstream import Database, MillstreamError

COLUMNS = {
    "BOOLEAN": "BOOLEAN",
    "INTEGER": "INTEGER",
    "BIGINT": "BIGINT",
    "DECIMAL": "DECIMAL(5, 2)",
    "DOUBLE": "DOUBLE",
    "STRING": "STRING",
    "BYTES": "BYTES",
    "DATE": "DATE",
    "TIME": "TIME",
    "TIMESTAMP": "TIMESTAMP",
    "ARRAY": "ARRAY<INTEGER>",
    "MAP": "MAP<STRING, INTEGER>",
    "STRUCT": "STRUCT<`A` INTEGER, `B` STRING>",
}
NUMBERS = ("DECIMAL", "DOUBLE", "STRING")
CONSTANTS = [
    # The constant, its type and value in the refusal, and the columns that accept it.
    ("true", "BOOLEAN(true)", ("BOOLEAN", "STRING")),
    ("7", "INTEGER(7)", ("INTEGER", "BIGINT", *NUMBERS)),
    ("-7", "INTEGER(-7)", ("INTEGER", "BIGINT", *NUMBERS)),
    ("3000000000", "BIGINT(3000000000)", ("BIGINT", "DOUBLE", "STRING")),
    ("1.5", "DECIMAL(1.5)", NUMBERS),
    ("1.555", "DECIMAL(1.555)", ("DOUBLE", "STRING")),
    ("1234.5", "DECIMAL(1234.5)", ("DOUBLE", "STRING")),
    ("1.5E1", "DOUBLE(15.0)", ("DOUBLE", "STRING")),
    ("'7'", "STRING(7)", ("INTEGER", "BIGINT", *NUMBERS)),
    ("'1.5'", "STRING(1.5)", NUMBERS),
    ("'Yes'", "STRING(Yes)", ("BOOLEAN", "STRING", "BYTES")),
    ("'f'", "STRING(f)", ("BOOLEAN", "STRING")),
    ("'x!'", "STRING(x!)", ("STRING",)),
    ("''", "STRING()", ("STRING", "BYTES")),
    ("'2020-01-02'", "STRING(2020-01-02)", ("STRING", "DATE", "TIMESTAMP")),
    ("'10:11'", "STRING(10:11)", ("STRING", "TIME")),
    ("FROM_DAYS(1)", "DATE(1970-01-02)", ("DATE",)),
    ("TO_BYTES('aa', 'hex')", "BYTES(qg==)", ("BYTES",)),
    ("ARRAY[1]", "ARRAY([1])", ("ARRAY",)),
    ("ARRAY['1']", "ARRAY([1])", ("ARRAY",)),
    ("ARRAY['x']", "ARRAY([x])", ()),
    ("ARRAY[1.5]", "ARRAY([1.5])", ()),
    ("MAP('a' := 1)", "MAP({a=1})", ("MAP",)),
    ("MAP(1 := '1')", "MAP({1=1})", ("MAP",)),
    ("MAP('a' := true)", "MAP({a=true})", ()),
    ("STRUCT(A := 1)", "STRUCT(Struct{A=1})", ("STRUCT",)),
    ("STRUCT(B := 1, A := '1')", "STRUCT(Struct{B=1,A=1})", ("STRUCT",)),
    ("STRUCT(A := 1.5)", "STRUCT(Struct{A=1.5})", ()),
    ("1 + 1", "INTEGER(2)", ("INTEGER", "BIGINT", "DOUBLE")),
    ("CAST(NULL AS INTEGER)", "INTEGER(null)", ("INTEGER", "BIGINT", "DOUBLE", *NUMBERS)),
    ("NULL", "", tuple(COLUMNS)),
]


@pytest.fixture
def columns(db: Database) -> Database:
    listed = ", ".join(f"c_{name} {kind}" for name, kind in COLUMNS.items())
    db.execute(
        f"CREATE STREAM s ({listed}) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )
    return db


@pytest.mark.parametrize(
    ("constant", "shown", "taking"), CONSTANTS, ids=[constant for constant, _, _ in CONSTANTS]
)
def test_constants(columns: Database, constant: str, shown: str, taking: tuple[str, ...]) -> None:
    for name, kind in COLUMNS.items():
        statement = f"INSERT INTO s (c_{name}) VALUES ({constant});"
        if name in taking:
            columns.execute(statement)
            continue
        with pytest.raises(MillstreamError) as caught:
            columns.execute(statement)
        wanted = f"Expected type {kind} for field `C_{name}` but got {shown}"
        assert caught.value.message == wanted

"""DECIMAL as text in every format, for types with and without digits before the point.

Rule (reference: types and formats 3 and 8): plain text with all digits of the scale and at least
one before the point, as Java's toPlainString has it. In JSON no number begins with a point.
"""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

import millstream
from millstream.log.log import Appended
from millstream.model.batch import raw_batch

FEW, MANY = 1, 300
"""Formats write a few rows in Python and many in DuckDB."""


@pytest.mark.parametrize("copies", [FEW, MANY])
@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("DECIMAL(1, 1)", ["0.5", "-0.5", "0.0"]),
        ("DECIMAL(3, 3)", ["0.125", "-0.001", "0.000"]),
        ("DECIMAL(38, 38)", ["0." + "1" * 38, "-0." + "0" * 37 + "7"]),
        ("DECIMAL(4, 3)", ["0.125", "-9.999", "0.000"]),
        ("DECIMAL(5, 0)", ["0", "-12345"]),
    ],
)
def test_one_text_everywhere(kind: str, texts: list[str], copies: int) -> None:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(
            f"CREATE STREAM s (d {kind}) WITH"
            " (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
            "CREATE STREAM j WITH (FORMAT='JSON') AS SELECT d, AS_VALUE(d) AS v, ARRAY[d] AS a,"
            " MAP('m' := d) AS m, STRUCT(f := d) AS f FROM s PARTITION BY d;"
            "CREATE STREAM x WITH (FORMAT='DELIMITED') AS SELECT d, AS_VALUE(d) AS v,"
            " CAST(d AS STRING) AS t, CAST(ARRAY[d] AS STRING) AS a, ARRAY_JOIN(ARRAY[d, d], '_')"
            " AS b, TO_JSON_STRING(d) AS c FROM s PARTITION BY d;"
        )
        records = [(None, f'{{"d":{text}}}'.encode(), 0) for text in texts * copies]
        db.engine.log.writer("test").append([Appended("s", 0, raw_batch(records), len(records), 0)])
        db.wait()
        for text, (key, value) in zip(texts * copies, written(db, "J"), strict=True):
            assert key == text
            assert value == f'{{"V":{text},"A":[{text}],"M":{{"m":{text}}},"F":{{"F":{text}}}}}'
            assert json.loads(value, parse_float=Decimal)["V"] == Decimal(text)
        for text, (key, value) in zip(texts * copies, written(db, "X"), strict=True):
            assert key.strip('"') == text
            fields = [field.strip('"') for field in value.split(",")]
            assert fields == [text, text, f"[{text}]", f"{text}_{text}", text]


def written(db: millstream.Database, topic: str) -> list[tuple[str, str]]:
    batch = db.engine.log.read(topic, 0, 0, 10_000).batch
    pairs = zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
    return [(key.decode(), value.decode()) for key, value in pairs]

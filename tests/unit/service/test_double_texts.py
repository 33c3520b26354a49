"""A DOUBLE has one text wherever it becomes text: that of Java's Double.toString.

Rule (reference: types and formats 1, 3 and 8; RUNNER 11.2): `1.0`, `1.0E10`, `4.9E-324`; NaN and
infinities are JSON strings and bare in other text. `unit/formats/test_java_text.py` checks the
digits; here, that every way to text has them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from random import Random

import millstream
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.java_number import java_double

EXPRESSIONS = {
    "CAST(x AS STRING)": "{0}",
    "CAST(ARRAY[x] AS STRING)": "[{0}]",
    "CAST(MAP('a' := x) AS STRING)": "{{a={0}}}",
    "CAST(MAP(x := 'a') AS STRING)": "{{{0}=a}}",
    "CAST(STRUCT(f := x) AS STRING)": "Struct{{F={0}}}",
    "TO_JSON_STRING(x)": "{1}",
    "TO_JSON_STRING(ARRAY[x])": "[{1}]",
    "TO_JSON_STRING(MAP('a' := x))": '{{"a":{1}}}',
    "TO_JSON_STRING(MAP(x := 'a'))": '{{"{0}":"a"}}',
    "TO_JSON_STRING(STRUCT(f := x))": '{{"F":{1}}}',
    "CONCAT('<', CAST(x AS STRING))": "<{0}",
    "'<' || CAST(x AS STRING)": "<{0}",
    "ARRAY_JOIN(ARRAY[x, x], '+')": "{0}+{0}",
    "ARRAY_JOIN(TRANSFORM(ARRAY[x], e => CAST(e AS STRING)))": "{0}",
}


def some_doubles(random: Random) -> list[float]:
    """Both ends of each notation, and anything."""
    corners = [0.0, -0.0, 1.0, 1e7, 9999999.999999998, 1e-3, 9.99e-4, 5e-324, -1e-323, 1e21, 1e22]
    corners += [1.7976931348623157e308, 2.2250738585072014e-308, 123456789012345680.0, 100.0, 2e-5]
    drawn = [
        random.choice((-1, 1)) * random.random() * 10.0 ** random.randint(-300, 300)
        for _ in range(60)
    ]
    return corners + drawn + [round(random.uniform(-1e5, 1e5), 2) for _ in range(40)]


def in_json(value: float) -> str:
    return java_double(value) if math.isfinite(value) else f'"{java_double(value)}"'


def written(db: millstream.Database, topic: str) -> list[tuple[str, str]]:
    batch = db.engine.log.read(topic, 0, 0, 1000).batch
    pairs = zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
    return [(key.decode(), value.decode()) for key, value in pairs]


def test_every_way_to_text() -> None:
    values = some_doubles(Random(5))
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(
            "CREATE STREAM s (x DOUBLE) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
        )
        listed = ", ".join(f"{text} AS c{n}" for n, text in enumerate(EXPRESSIONS))
        db.execute(f"CREATE STREAM o AS SELECT {listed} FROM s;")
        db.execute(
            "CREATE STREAM d WITH (FORMAT='DELIMITED') AS SELECT x, 'a' AS a FROM s PARTITION BY x;"
        )
        db.execute(
            "CREATE STREAM j WITH (FORMAT='JSON') AS SELECT x, ARRAY[x] AS a,"
            " MAP('m' := x) AS m, STRUCT(f := x) AS f FROM s PARTITION BY x;"
        )
        records = [(None, json.dumps({"x": value}).encode(), 0) for value in values]
        db.engine.log.writer("test").append([Appended("s", 0, raw_batch(records), len(records), 0)])
        db.wait()
        found: Sequence[Sequence[object]] = [tuple(row) for row in db.execute("SELECT * FROM o;")]
        for value, row in zip(values, found, strict=True):
            for (text, shape), cell in zip(EXPRESSIONS.items(), row, strict=True):
                assert cell == shape.format(java_double(value), in_json(value)), (text, value)
        assert [key.strip('"') for key, _ in written(db, "D")] == [java_double(v) for v in values]
        for value, (key, body) in zip(values, written(db, "J"), strict=True):
            number = java_double(value)
            assert key == number
            assert body == f'{{"A":[{number}],"M":{{"m":{number}}},"F":{{"F":{number}}}}}'

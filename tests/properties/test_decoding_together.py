"""Queries over one topic write the same, whether they decode its records together or not."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import millstream
from millstream.executor.decode_cache import DecodeCache
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from tests.draws import draws

PARTITIONS = 3
TOPIC = "WITH (KAFKA_TOPIC='t', PARTITIONS=3, VALUE_FORMAT='JSON'"
SOURCES = f"""
CREATE STREAM s (k STRING KEY, a BIGINT, b STRING) {TOPIC});
CREATE STREAM timed (k STRING KEY, a BIGINT, b STRING) {TOPIC}, TIMESTAMP='a');
CREATE STREAM bare (whole STRING) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='KAFKA');
CREATE STREAM keyed (k BIGINT KEY, a BIGINT) {TOPIC}, KEY_FORMAT='JSON');
CREATE TABLE latest (k STRING PRIMARY KEY, b STRING) {TOPIC});
"""
JSON = "WITH (VALUE_FORMAT='JSON')"
QUERIES = (
    "CREATE STREAM {name} AS SELECT k, a + 1 AS x FROM s WHERE a > {number} EMIT CHANGES;",
    "CREATE STREAM {name} AS SELECT k, b, ROWTIME AS t FROM s EMIT CHANGES;",
    "CREATE STREAM {name} AS SELECT k, a, ROWTIME AS t FROM timed EMIT CHANGES;",
    "CREATE STREAM {name} {json} AS SELECT whole, ROWOFFSET AS o FROM bare EMIT CHANGES;",
    "CREATE STREAM {name} {json} AS SELECT k, a FROM keyed EMIT CHANGES;",
    "CREATE TABLE {name} AS SELECT k, b FROM latest EMIT CHANGES;",
    "CREATE TABLE {name} AS SELECT k, COUNT(*) AS n FROM s GROUP BY k EMIT CHANGES;",
)
REPLACED = """
CREATE OR REPLACE STREAM s (k STRING KEY, a BIGINT, b STRING, c BIGINT)
  WITH (KAFKA_TOPIC='t', PARTITIONS=3, VALUE_FORMAT='JSON');
CREATE STREAM wider AS SELECT k, a, c FROM s EMIT CHANGES;
CREATE STREAM other (k STRING KEY, a BIGINT, b STRING, c STRING)
  WITH (KAFKA_TOPIC='t', PARTITIONS=3, VALUE_FORMAT='JSON');
CREATE STREAM changed AS SELECT k, c FROM other EMIT CHANGES;
"""
OTHERS = (b"null", b"{", None, b'{"a":"x"}', b'{"a":-5}')


def records(chance: random.Random, count: int, at: int) -> pa.Table:
    made: list[Any] = []
    for number in range(at, at + count):
        value = {"a": number, "b": f"b{number % 5}", "c": number * 2}
        text = json.dumps(value).encode()
        key = chance.choice((b"1", b"2", b"key", None))
        made.append((key, text if chance.random() < 0.95 else chance.choice(OTHERS), 1000 + number))
    return raw_batch(made)


def outcome(seed: int, decoded_bytes: int, batch: int) -> tuple[dict[str, Any], DecodeCache]:
    """What all queries have written, and the cache."""
    chance = random.Random(seed)
    settings = millstream.EngineSettings(decoded_bytes=decoded_bytes, max_batch_records=batch)
    properties = {"auto.offset.reset": "earliest", "cache.max.bytes.buffering": "0"}
    with millstream.connect(settings=settings, properties=properties) as database:
        database.execute(SOURCES)
        names = []

        def append(count: int) -> None:
            for partition in range(PARTITIONS):
                rows = records(chance, count, 1 + 1000 * len(names))
                database.engine.writer.append(
                    [Appended("t", partition, rows, rows.num_rows, rows.nbytes)]
                )

        append(200)
        for number in range(5):
            names.append(f"Q{number}")
            template = chance.choice(QUERIES)
            database.execute(template.format(name=names[-1], number=number * 50, json=JSON))
            append(chance.choice((1, 5, 300)))
        database.execute(REPLACED)
        append(100)
        database.wait()
        log = database.engine.log
        written = {}
        for topic in (*names, "WIDER", "CHANGED"):
            described = log.topic(topic)
            assert described is not None
            rows: Counter[Any] = Counter()
            for partition in range(described.partitions):
                found = log.read(topic, partition, 0, 1 << 20).batch
                rows.update(
                    (partition, *row.values())
                    for row in found.select(["key", "value", "timestamp"]).to_pylist()
                )
            written[topic] = rows
        written["problems"] = Counter(
            (query.query_id, *query.problems.items()) for query in database.metrics().queries
        )
        return written, database.engine.registry.decoded


@pytest.mark.parametrize("seed", range(draws(6)))
def test_results_do_not_depend_on_who_decodes(seed: int) -> None:
    expected, alone = outcome(seed, 0, 200_000)
    assert (alone.decoded, alone.reused) == (0, 0)
    for decoded_bytes, batch in ((64 << 20, 200_000), (64 << 20, 40), (30_000, 300)):
        found, together = outcome(seed, decoded_bytes, batch)
        assert found == expected
        assert together.decoded > 0
        assert together.bytes <= decoded_bytes

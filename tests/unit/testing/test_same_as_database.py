"""The test driver computes what a database with threads does, however its records are piped."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

import millstream
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.testing import OutputRecord, TopologyTestDriver

SETUP = """
CREATE STREAM clicks (k STRING KEY, page STRING, n INT)
  WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE STREAM views (k STRING KEY, page STRING)
  WITH (KAFKA_TOPIC='views', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE users (k STRING PRIMARY KEY, city STRING)
  WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON', PARTITIONS=2);
"""
ARRIVAL = {"millstream.input.order": "arrival"}
"""So the results do not depend on when the records are read."""
LATE = (9_000, 1_000, 5_000, 3_000, 2_000, 8_000)
SOURCES = {"clicks": ("page", "n"), "views": ("page",), "users": ("city",)}
WITHIN = "WITHIN 5 SECONDS GRACE PERIOD 2 SECONDS"
QUERIES = {
    "filtered": "CREATE STREAM o AS SELECT k, UCASE(page) AS p, 100 / n AS m FROM clicks"
    " WHERE n <> 1;",
    "sums": "CREATE TABLE o AS SELECT k, COUNT(*) AS c, SUM(n) AS s FROM clicks GROUP BY k"
    " HAVING COUNT(*) > 1;",
    "other key": "CREATE TABLE o AS SELECT page, COUNT(*) AS c FROM clicks GROUP BY page;",
    "partitioned": "CREATE STREAM o WITH (PARTITIONS=3) AS SELECT * FROM clicks PARTITION BY page;",
    "tumbling": "CREATE TABLE o AS SELECT page, SUM(n) AS s FROM clicks"
    " WINDOW TUMBLING (SIZE 4 SECONDS) GROUP BY page;",
    "final": "CREATE TABLE o AS SELECT k, SUM(n) AS s FROM clicks"
    " WINDOW HOPPING (SIZE 4 SECONDS, ADVANCE BY 2 SECONDS, GRACE PERIOD 1 SECONDS)"
    " GROUP BY k EMIT FINAL;",
    "sessions": "CREATE TABLE o AS SELECT k, COUNT(*) AS c FROM clicks"
    " WINDOW SESSION (3 SECONDS) GROUP BY k;",
    "with a table": "CREATE STREAM o AS SELECT clicks.k AS k, page, city FROM clicks"
    " LEFT JOIN users ON clicks.k = users.k;",
    "two streams": "CREATE STREAM o AS SELECT clicks.k AS k, clicks.page AS p, views.page AS q"
    f" FROM clicks LEFT JOIN views {WITHIN} ON clicks.k = views.k;",
    "chained": "CREATE STREAM m AS SELECT * FROM clicks PARTITION BY page;"
    "CREATE TABLE o AS SELECT page, COUNT_DISTINCT(k) AS c FROM m GROUP BY page;",
}


def inputs(seed: int) -> list[tuple[str, dict[str, Any] | None, str, int]]:
    """Records of all sources, some of them late: target, value, key and time."""
    draw = random.Random(seed)
    found: list[tuple[str, dict[str, Any] | None, str, int]] = []
    for number in range(40):
        target = draw.choice(["clicks", "clicks", "views", "users"])
        value = {name: draw.choice("xyz") for name in SOURCES[target]}
        row: dict[str, Any] | None = {**value, **({"n": draw.randrange(3)} if "n" in value else {})}
        if draw.random() < 0.1:
            row = None
        time = 10_000 + 500 * number - draw.choice([0, 0, 0, 4_000])
        found.append((target, row, draw.choice("abcd"), time))
    return found


def raw(records: Sequence[OutputRecord]) -> list[tuple[Any, ...]]:
    """What is on the log of each partition."""
    return [(r.partition, r.offset, r.timestamp, r.raw_key, r.raw_value) for r in records]


def piped(query: str, seed: int) -> tuple[list[OutputRecord], dict[str, Any]]:
    """The records of the sink, and all records by topic, with records piped one by one."""
    with TopologyTestDriver(SETUP + query) as driver:
        for target, value, key, time in inputs(seed):
            driver.pipe(target, value, key=key, timestamp=time)
        return driver.read("o"), {name: raw(driver.read(name)) for name in SOURCES}


def at_once(query: str, seed: int) -> tuple[list[OutputRecord], dict[str, Any]]:
    """The same with all records there before any is processed."""
    with TopologyTestDriver(SETUP + query, properties=ARRIVAL) as driver:
        for record in inputs(seed):
            write(driver._engine, record, driver)
        driver.advance_wall_clock(0)
        return driver.read("o"), {name: raw(driver.read(name)) for name in SOURCES}


def write(engine: Any, record: tuple[str, Any, str, int], driver: TopologyTestDriver) -> None:
    target, value, key, time = record
    topic, source = driver._find(target, written=False)
    ((raw_key, raw_value, _),) = driver._encoded(topic, source, [value], key)
    batch = raw_batch([(raw_key, raw_value, time)])
    partition = driver._partition(topic, raw_key, None)
    engine.writer.append([Appended(target, partition, batch, 1, batch.nbytes)])


@pytest.mark.parametrize("name", QUERIES)
def test_sizes_of_batches_do_not_matter(name: str) -> None:
    alone, inputs_alone = piped(QUERIES[name], 1)
    together, inputs_together = at_once(QUERIES[name], 1)
    assert len(alone) > 2
    assert inputs_alone == inputs_together
    assert alone == together


def test_a_list_is_piped_one_by_one() -> None:
    """Although the queries take what is there by time."""
    rows = [
        {"k": k, "page": "x", "n": 2, "rowtime": time}
        for k, time in zip("abcdab", LATE, strict=True)
    ]
    for query in QUERIES.values():
        with TopologyTestDriver(SETUP + query) as alone, TopologyTestDriver(SETUP + query) as other:
            for row in rows:
                alone.pipe("clicks", row)
            other.pipe("clicks", rows)
            assert alone.read("o") == other.read("o")


@pytest.mark.parametrize("name", QUERIES)
def test_a_database_with_threads_writes_the_same_records(name: str) -> None:
    text = SETUP + QUERIES[name]
    properties = {"auto.offset.reset": "earliest", **ARRIVAL}
    with TopologyTestDriver(text) as driver, millstream.connect(properties=properties) as db:
        db.execute(text)
        for record in inputs(3):
            target, value, key, time = record
            driver.pipe(target, value, key=key, timestamp=time)
            write(db.engine, record, driver)
        db.wait()
        expected = driver.read("o")
        log, topic = db.engine.log, expected[0].topic
        described = log.topic(topic)
        assert described is not None and len(expected) > 2
        found = [
            (partition, row["offset"], row["timestamp"], row["key"], row["value"])
            for partition in range(described.partitions)
            for row in log.read(topic, partition, 0, 10_000).records().to_pylist()
        ]
        assert found == sorted(raw(expected), key=lambda record: record[:2])
        problems = [
            [(entry["kind"], entry["topic"], entry["partition"], entry["offset"]) for entry in log]
            for log in (db.processing_log().to_pylist(), driver.processing_log())
        ]
        assert sorted(problems[0]) == sorted(problems[1])

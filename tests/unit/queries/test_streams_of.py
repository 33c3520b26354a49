"""Which topics of a query have rows of streams: only these are written outside of transactions."""

from __future__ import annotations

import pytest

import millstream

SOURCES = """
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE STREAM r (k STRING KEY, w INT) WITH (KAFKA_TOPIC='r', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE t (k STRING PRIMARY KEY, w INT)
  WITH (KAFKA_TOPIC='t', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE f (k STRING PRIMARY KEY, v STRING)
  WITH (KAFKA_TOPIC='f', PARTITIONS=2, VALUE_FORMAT='JSON');
"""
STREAM, TABLE = "stream", "table"


@pytest.mark.parametrize(
    ("statement", "sink", "moved"),
    [
        ("CREATE STREAM x AS SELECT k, v FROM s", STREAM, set()),
        ("CREATE STREAM x AS SELECT * FROM s PARTITION BY v", STREAM, set()),
        ("CREATE TABLE x AS SELECT k, COUNT(*) AS n FROM s GROUP BY k", TABLE, set()),
        ("CREATE TABLE x AS SELECT v, COUNT(*) AS n FROM s GROUP BY v", TABLE, {STREAM}),
        ("CREATE TABLE x AS SELECT w, COUNT(*) AS n FROM t GROUP BY w", TABLE, {TABLE}),
        ("CREATE TABLE x AS SELECT k, w FROM t WHERE w > 1", TABLE, set()),
        ("CREATE STREAM x AS SELECT s.k, v, w FROM s JOIN t ON s.k = t.k", STREAM, set()),
        (
            "CREATE STREAM x AS SELECT v, s.k AS a, r.k AS b FROM s JOIN r WITHIN 1 HOUR"
            " ON s.v = r.w",
            STREAM,
            {STREAM},
        ),
        ("CREATE TABLE x AS SELECT f.k, v, w FROM f JOIN t ON f.v = t.k", TABLE, {TABLE}),
    ],
)
def test_rows_of_streams(statement: str, sink: str, moved: set[str]) -> None:
    with millstream.connect() as db:
        db.execute(SOURCES)
        db.execute(statement + ";")
        (spec,) = (query.spec for query in db.engine.runtime._queries.values())
    written = {topic for executor in spec.executors for topic in executor.outputs}
    kinds = {topic: STREAM if topic in spec.streams else TABLE for topic in written}
    assert kinds.pop("X") == sink
    assert set(kinds) <= spec.repartitions
    assert set(kinds.values()) == moved
    assert not spec.streams - written

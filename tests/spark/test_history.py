"""Queries over history on Spark: the rows that this process finds, stages, cancelling."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import millstream
from millstream import Database, History
from millstream.history.session import available
from millstream.model.settings import EngineSettings

if not available() and not os.environ.get("MILLSTREAM_REQUIRE_SPARK"):
    pytest.skip("Spark needs PySpark and Java: see docs/history.md", allow_module_level=True)

SCRIPT = """
CREATE STREAM s (k STRING KEY, w STRING, v BIGINT)
  WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT w, COUNT(*) AS n FROM s GROUP BY w;
"""
QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
QUERIES = (
    "SELECT * FROM s AS OF TIMESTAMP 20000 WHERE v > 3 ORDER BY v;",
    "SELECT w, WINDOWSTART, COUNT(*), SUM(v) FROM s WINDOW TUMBLING (SIZE 5 SECONDS) GROUP BY w "
    "ORDER BY w, WINDOWSTART;",
    "SELECT * FROM t AS OF TIMESTAMP 15000 ORDER BY w;",
    "SELECT w, median(v) AS m FROM s GROUP BY w ORDER BY w;",
)


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    settings = EngineSettings(spark_master="local[2]", spark_options=QUICK)
    properties = {"auto.offset.reset": "earliest"}
    with millstream.connect(settings=settings, properties=properties) as made:
        made.execute(SCRIPT)
        for n in range(40):
            values = f"{n * 1000}, 'k{n % 7}', 'w{n % 3}', {n}"
            made.execute(f"INSERT INTO s (ROWTIME, k, w, v) VALUES ({values});")
        made.wait()
        yield made


def ask(db: Database, backend: str, sql: str) -> History:
    db.execute(f"SET 'millstream.history.backend' = '{backend}';")
    found = db.execute(sql)
    assert isinstance(found, History)
    return found


@pytest.mark.parametrize("sql", QUERIES)
def test_the_same_rows(db: Database, sql: str) -> None:
    wanted = ask(db, "duckdb", sql).fetchall()
    assert wanted
    assert ask(db, "spark", sql).fetchall() == wanted


def test_stages_and_cancelling(db: Database) -> None:
    found = ask(db, "spark", "SELECT * FROM s;")
    assert found.next_batch() is not None
    assert all(stage.total for stage in found.progress())
    found.close()
    assert found.next_batch() is None and not db.engine.history.reading

"""Queries over history on Spark: the rows that this process finds, stages, cancelling."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
import pytest

import millstream
from millstream import Database, History
from millstream.history.session import available
from millstream.model.settings import EngineSettings
from millstream_cli.sessions.local import LocalSession
from millstream_cli.sessions.results import Answer
from tests.served import served
from tests.spark.java import QUICK

if not available() and not os.environ.get("MILLSTREAM_REQUIRE_SPARK"):
    pytest.skip("Spark needs PySpark and Java: see docs/history.md", allow_module_level=True)

SCRIPT = """
CREATE STREAM s (k STRING KEY, w STRING, v BIGINT)
  WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT w, COUNT(*) AS n FROM s GROUP BY w;
"""
QUERIES = (
    "SELECT * FROM s AS OF TIMESTAMP 20000 WHERE v > 3 ORDER BY v;",
    "SELECT w, WINDOWSTART, COUNT(*), SUM(v) FROM s WINDOW TUMBLING (SIZE 5 SECONDS) GROUP BY w "
    "ORDER BY w, WINDOWSTART;",
    "SELECT * FROM t AS OF TIMESTAMP 15000 ORDER BY w;",
    "SELECT k, v FROM s WHERE v > 3 LIMIT 5;",
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


@pytest.mark.parametrize("path", ["/query", "/query-stream"])
def test_the_same_rows_over_http(db: Database, path: str) -> None:
    found = []
    with served(db.engine) as door:
        for backend in ("duckdb", "spark"):
            properties = {"millstream.history.backend": backend}
            body = {"ksql": QUERIES[0], "streamsProperties": properties}
            if path == "/query-stream":
                body = {"sql": QUERIES[0], "properties": properties}
            answer = httpx.post(door.url + path, json=body, timeout=120.0)
            assert answer.status_code == 200, answer.text
            found.append([line for line in answer.text.splitlines() if "queryId" not in line])
    assert found[0] == found[1] and len(found[0]) > 5


def test_the_shell_runs_where_it_is_told_to(db: Database) -> None:
    session = LocalSession(db)
    answers = []
    for backend in ("duckdb", "spark"):
        [_, answer] = session.run(f"SET 'millstream.history.backend' = '{backend}'; {QUERIES[1]}")
        answers.append(answer)
    assert answers[0] == answers[1] and isinstance(answers[0], Answer) and answers[0].rows


def test_stages_and_cancelling(db: Database) -> None:
    found = ask(db, "spark", "SELECT * FROM s;")
    assert found.next_batch() is not None
    assert all(stage.total for stage in found.progress())
    found.close()
    assert found.next_batch() is None and not db.engine.history.reading

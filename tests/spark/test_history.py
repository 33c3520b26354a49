"""Queries over history on Spark: the rows that this process finds, stages, cancelling."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest

import millstream
from millstream import Database, History, udf
from millstream.history.session import available
from millstream.history.watch import Watch
from millstream.model.settings import EngineSettings
from millstream_cli.sessions.historical import shown
from millstream_cli.sessions.local import LocalSession
from millstream_cli.sessions.results import ResultTable
from tests.patience import PATIENCE_S, until
from tests.served import served
from tests.spark.java import QUICK

if not available() and not os.environ.get("MILLSTREAM_REQUIRE_SPARK"):
    pytest.skip("Spark needs PySpark and Java: see docs/history.md", allow_module_level=True)

SCRIPT = """
CREATE STREAM s (k STRING KEY, w STRING, v BIGINT)
  WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT w, COUNT(*) AS n FROM s GROUP BY w;
CREATE TABLE windows AS SELECT w, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 5 SECONDS) GROUP BY w;
"""
QUERIES = (
    "SELECT * FROM s AS OF TIMESTAMP 20000 WHERE v > 3 ORDER BY v;",
    "SELECT w, WINDOWSTART, COUNT(*), SUM(v) FROM s WINDOW TUMBLING (SIZE 5 SECONDS) GROUP BY w "
    "ORDER BY w, WINDOWSTART;",
    "SELECT * FROM t AS OF TIMESTAMP 15000 ORDER BY w;",
    "SELECT k, v FROM s WHERE v > 3 LIMIT 5;",
    "SELECT w, median(v) AS m FROM s GROUP BY w ORDER BY w;",
    "SELECT v, ROWPARTITION, ROWOFFSET FROM s BETWEEN OFFSETS 2 AND 6 ORDER BY v;",
    "SELECT w, n FROM t BETWEEN OFFSETS (1, 0) AND (9, 3) ORDER BY w;",
    "SELECT w, n FROM t FROM TIMESTAMP 9000 TO 16000 ORDER BY w;",
    "SELECT w, WINDOWSTART, n FROM windows AS OF TIMESTAMP 22000 ORDER BY w, WINDOWSTART;",
    "SELECT s.v, t.n FROM s BETWEEN OFFSETS 0 AND 5 s JOIN t AS OF TIMESTAMP 15000 t "
    "ON s.w = t.w ORDER BY s.v;",
)


def endless(value: int) -> int:
    """A function of a user, which runs in a worker."""
    threading.Event().wait()
    return value


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    settings = EngineSettings(spark_master="local[2]", spark_options=QUICK)
    properties = {"auto.offset.reset": "earliest"}
    functions = [udf("ENDLESS", "BIGINT -> BIGINT", endless)]
    with millstream.connect(settings=settings, properties=properties, functions=functions) as made:
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


def test_the_shell_runs_at_the_given_place(db: Database) -> None:
    session = LocalSession(db)
    answers = []
    for backend in ("duckdb", "spark"):
        [_, answer] = session.run(f"SET 'millstream.history.backend' = '{backend}'; {QUERIES[1]}")
        answers.append(answer)
    assert answers[0] == answers[1] and isinstance(answers[0], ResultTable) and answers[0].rows


def test_stages_and_cancelling(db: Database) -> None:
    found = ask(db, "spark", "SELECT * FROM s;")
    assert found.next_batch() is not None
    assert all(stage.total for stage in found.progress())
    found.close()
    assert found.next_batch() is None and not db.engine.historical.queries


ENDLESS = "SELECT ENDLESS(v) FROM s;"


def in_job(watch: Watch) -> bool:
    """Whether the query's job has a stage that runs."""
    return any("stage" in stage.name and stage.done < stage.total for stage in watch.stages())


def idle(db: Database) -> bool:
    """Whether Spark has nothing to do."""
    with db.engine.historical.on_spark.spark.using() as session:
        tracker = session.sparkContext.statusTracker()
        return not tracker.getActiveJobsIds() and not tracker.getActiveStageIds()


def test_closing_ends_the_job(db: Database) -> None:
    found = ask(db, "spark", ENDLESS)
    rows: list[object] = []
    reader = threading.Thread(target=lambda: rows.extend(found.fetchall()))
    reader.start()
    (watch,) = awaited(db)
    until(lambda: in_job(watch))
    found.close()
    reader.join(PATIENCE_S)
    assert not reader.is_alive() and not rows
    until(lambda: idle(db))


@pytest.mark.parametrize(("path", "text"), [("/query", "ksql"), ("/query-stream", "sql")])
def test_a_client_that_leaves_ends_the_job(db: Database, path: str, text: str) -> None:
    properties = "streamsProperties" if text == "ksql" else "properties"
    body = {text: ENDLESS, properties: {"millstream.history.backend": "spark"}}
    with served(db.engine) as door, connected(door.url) as client:
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        (watch,) = awaited(db)
        until(lambda: in_job(watch))
        client.close()
        until(lambda: watch.cancelled.is_set() and not db.engine.historical.queries)
        until(lambda: idle(db))


def test_ctrl_c_in_the_shell_ends_the_job(db: Database) -> None:
    """It arrives while the shell shows the job's progress."""
    told: list[tuple[str, int | None]] = []

    def interrupted(done: int, total: int | None, name: str = "rows") -> None:
        told.append((name, total))
        if any(in_job(watch) for watch in db.engine.historical.queries):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shown(ask(db, "spark", ENDLESS), interrupted)
    assert any(total for _, total in told)
    until(lambda: idle(db))


def connected(url: str) -> socket.socket:
    """A connection that can be hung up at any moment."""
    host, _, port = url.rpartition("/")[2].partition(":")
    return socket.create_connection((host, int(port)))


def awaited(db: Database) -> tuple[Watch, ...]:
    """The queries over history, once there is one."""
    until(lambda: bool(db.engine.historical.queries))
    return tuple(db.engine.historical.queries)

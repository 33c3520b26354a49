"""Errors of jobs on Spark name the statement and its position, and affect nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import millstream
from millstream import Database, History, udf
from millstream.history.session import available
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.model.settings import EngineSettings
from millstream.pipeline.pipeline import open_pipeline
from millstream.service.engine import Engine
from tests.served import served
from tests.spark.java import QUICK

if not available() and not os.environ.get("MILLSTREAM_REQUIRE_SPARK"):
    pytest.skip("Spark needs PySpark and Java: see docs/history.md", allow_module_level=True)

STREAM = (
    "CREATE STREAM s (k STRING KEY, v BIGINT)"
    " WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');"
)
PROPERTIES = {"auto.offset.reset": "earliest", "millstream.history.backend": "spark"}
SETTINGS = EngineSettings(spark_master="local[2]", spark_options=QUICK)


def dies(value: int) -> int:
    """A user function that kills its worker."""
    os._exit(value)


FUNCTIONS = [udf("DIES", "BIGINT -> BIGINT", dies)]


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with millstream.connect(settings=SETTINGS, properties=PROPERTIES, functions=FUNCTIONS) as made:
        made.execute(f"{STREAM} INSERT INTO s (k, v) VALUES ('a', 1);")
        yield made


def test_a_query_that_fails_is_shown(db: Database) -> None:
    found = db.execute("SHOW STREAMS;\n  SELECT k,\n    DIES(v) FROM s;")
    assert isinstance(found, History)
    with pytest.raises(UnavailableError, match="failed on Spark") as raised:
        found.fetchall()
    error = raised.value
    assert error.code == "E-SPARK" and "exited unexpectedly" in error.detail
    assert error.detail.endswith("line 2, column 3: SELECT k, …")
    assert error.span is not None and (error.span.line, error.span.column) == (2, 3)
    again = db.execute("SELECT v FROM s;")
    assert isinstance(again, History) and again.fetchall() == [(1,)]


def test_a_query_that_fails_is_shown_over_http(db: Database) -> None:
    body = {"sql": "SELECT k, DIES(v) FROM s;", "properties": PROPERTIES}
    with served(db.engine) as door:
        answer = httpx.post(f"{door.url}/query-stream", json=body, timeout=120.0)
    assert "line 1, column 1: SELECT k, DIES(v) FROM s" in answer.text
    assert "failed on Spark" in answer.text


def test_a_back_fill_that_fails_is_shown(db: Database) -> None:
    text = "CREATE STREAM gone WITH (BACKFILL='spark') AS SELECT k, DIES(v) FROM s;"
    with pytest.raises(MillstreamError, match="failed on Spark") as raised:
        db.execute(f"\n{text}")
    assert "line 2, column 1: CREATE STREAM gone" in raised.value.detail


def test_a_query_of_a_pipeline_that_fails_is_shown(tmp_path: Path) -> None:
    script = tmp_path / "queries.sql"
    script.write_text(f"{STREAM}\nCREATE STREAM gone AS SELECT k, DIES(v) AS v FROM s;")
    failed: list[MillstreamError] = []
    with open_pipeline(
        ":memory:",
        str(script),
        lambda _, error: failed.append(error),
        master="local[2]",
        settings=SETTINGS,
        properties={"auto.offset.reset": "earliest"},
        functions=FUNCTIONS,
    ) as pipeline:
        send(pipeline.engine)
        assert not list(pipeline.epoch())
    (error,) = failed
    assert "line 2, column 1: CREATE STREAM gone AS SELECT" in error.detail


def test_a_worker_without_enough_memory_ends_one_query(tmp_path: Path) -> None:
    settings = EngineSettings(
        spark_master="local[2]", spark_options=QUICK, history_memory_limit="16MB"
    )
    with millstream.connect(settings=settings, properties=PROPERTIES) as db:
        db.execute(f"{STREAM} INSERT INTO s (k, v) VALUES ('a', 1);")
        send(db.engine, 60_000)
        found = db.execute("SELECT k, COUNT(*) FROM s GROUP BY k;")
        assert isinstance(found, History)
        with pytest.raises(StatementError, match="task 0 of its sub-topology 0") as raised:
            found.fetchall()
        assert raised.value.code == "E-HISTORY-MEMORY" and "16MB" in raised.value.message
        assert "line 1, column 1: SELECT k, COUNT(*) FROM s GROUP BY k" in raised.value.detail
        few = db.execute("SELECT v FROM s BETWEEN OFFSETS 0 AND 1;")
        assert isinstance(few, History) and len(few.fetchall()) == 2


def send(engine: Engine, count: int = 1) -> None:
    """Records with long keys, each another one."""
    batch = raw_batch([(b"%0600d" % n, b'{"V":1}', n) for n in range(count)])
    engine.log.writer("producer").append([Appended("s", 0, batch, count)])

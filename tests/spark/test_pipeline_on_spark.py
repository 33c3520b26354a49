"""A pipeline on Spark, over little and over much input, and the engine that continues from it."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream
from millstream.history.inline import INLINE_RECORDS
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.errors import MillstreamError
from millstream.model.settings import EngineSettings
from millstream.pipeline.pipeline import Pipeline, open_pipeline
from millstream.query.session import Session
from millstream.service.database import Database
from tests.spark.java import QUICK, missing
from tests.unit.conftest import EARLIEST, ORDERS
from tests.unit.queries.test_backfilling import PEOPLE, QUERIES, fill

SCRIPT = (
    ORDERS
    + PEOPLE
    + QUERIES["rows that move"].format("").replace("TABLE o ", "TABLE sums ")
    + QUERIES["table join"].format("").replace("STREAM o ", "STREAM joined ")
    + "CREATE TABLE towns AS SELECT town, COUNT(*) AS n FROM joined GROUP BY town;"
)
MANY = INLINE_RECORDS + 1


def failed(query_id: str, error: MillstreamError) -> None:
    raise error


def epoch(pipeline: Pipeline) -> dict[str, int]:
    """Run one; how many records each query has read."""
    return {done.query_id.split("_")[1]: done.read for done in pipeline.epoch()}


def test_little_and_much(tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(why)
    path, script = str(tmp_path / "shop.db"), tmp_path / "pipeline.sql"
    script.write_text(SCRIPT)
    settings = EngineSettings(spark_options=QUICK)
    with open_pipeline(
        path, str(script), failed, master="local[2]", settings=settings, properties=EARLIEST
    ) as pipeline:
        db = Database(pipeline.engine, Session(EARLIEST))
        fill(db, 0, 12)
        assert epoch(pipeline) == {"SUMS": 12, "JOINED": 16, "TOWNS": 12}
        assert not epoch(pipeline)
        batch = raw_batch([(b"c9", b'{"ITEM":"i0","AMOUNT":1}', n) for n in range(MANY)])
        writer = pipeline.engine.log.writer("producer")
        writer.append([Appended("orders", 1, batch, MANY)])
        assert epoch(pipeline) == {"SUMS": MANY, "JOINED": MANY, "TOWNS": MANY}
        fill(db, 12, 15)
        assert epoch(pipeline) == {"SUMS": 3, "JOINED": 4, "TOWNS": 3}
    with millstream.connect(path, properties=EARLIEST) as db:
        fill(db, 15, 18)
        db.wait()
        sums = {item: n for item, n, _ in db.execute("SELECT * FROM sums;")}
        assert sums == {"i0": MANY + 6, "i1": 6, "i2": 6}
        assert sum(n for _, n in db.execute("SELECT town, n FROM towns;")) > 0
        assert not [status.error for status in db.engine.statuses() if status.error]

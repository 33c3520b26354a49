"""A query that is back-filled on Spark continues with later records."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream
from millstream import Database, udf
from millstream.history.watch import Watch
from millstream.model.errors import UnavailableError
from millstream.model.settings import EngineSettings
from tests.patience import until
from tests.spark.java import QUICK, missing
from tests.unit.conftest import EARLIEST, ORDERS
from tests.unit.queries.test_backfilling import COUNTS, PEOPLE, fill
from tests.unit.service.test_processors_filled import Running

FILLED = COUNTS.replace("duckdb", "spark")
ROWS = [("i0", 5, 30.0), ("i1", 5, 35.0), ("i2", 5, 40.0)]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """With twelve orders."""
    if why := missing():
        pytest.skip(why)
    settings = EngineSettings(spark_master="local[2]", spark_options=QUICK)
    path = str(tmp_path / "orders.db")
    with millstream.connect(path, properties=EARLIEST, settings=settings) as made:
        made.execute(ORDERS + PEOPLE)
        fill(made, 0, 12)
        yield made


def test_it_goes_on_as_if_it_had_met_every_record(db: Database) -> None:
    db.execute(FILLED)
    fill(db, 12, 15)
    db.wait()
    assert sorted(db.execute("SELECT item, n, total FROM o;")) == ROWS
    assert not [status.error for status in db.engine.statuses() if status.error]


def test_a_processor_goes_on_as_if_it_had_met_every_record(db: Database) -> None:
    db.register(millstream.processor(Running))
    db.execute("CREATE STREAM live AS SELECT * FROM PROCESS(orders, 'Running');")
    db.execute(
        "CREATE STREAM o WITH (BACKFILL='spark') AS SELECT * FROM PROCESS(orders, 'Running');"
    )
    fill(db, 12, 30)
    db.wait()
    assert not [status.error for status in db.engine.statuses() if status.error]
    live = sorted(db.execute("SELECT customer, n, total FROM live;"))
    assert sorted(db.execute("SELECT customer, n, total FROM o;")) == live
    assert -1 in {n for _, n, _ in live}


def endless(value: str) -> str:
    """A function of a user, which runs in a worker."""
    threading.Event().wait()
    return value


def test_one_that_is_cancelled_ends_its_job_and_leaves_no_trace(db: Database) -> None:
    db.register(udf("ENDLESS", "STRING -> STRING", endless))
    before = db.engine.log.topics(), db.engine.catalog

    def cancelling(watch: Watch) -> None:
        def run() -> None:
            while not any("stage" in stage.name for stage in watch.stages()):
                threading.Event().wait(0.05)
            watch.cancel()

        threading.Thread(target=run, daemon=True).start()

    db.session.on_backfill = cancelling
    with pytest.raises(UnavailableError, match="cancelled; nothing was made"):
        db.execute(FILLED.replace("GROUP", "WHERE ENDLESS(item) = item GROUP"))
    assert (db.engine.log.topics(), db.engine.catalog) == before
    with db.engine.historical.on_spark.spark.using() as session:
        tracker = session.sparkContext.statusTracker()
        until(lambda: not tracker.getActiveJobsIds() and not tracker.getActiveStageIds())


def test_a_jvm_that_has_ended_is_followed_by_another(db: Database) -> None:
    before = db.engine.log.topics(), db.engine.catalog

    def killing(_watch: Watch) -> None:
        with db.engine.historical.on_spark.spark.using() as session:
            process = session.sparkContext._gateway.proc  # type: ignore[union-attr]
        process.kill()
        process.wait()
        db.session.on_backfill = None

    db.session.on_backfill = killing
    fill(db, 12, 15)
    with db.engine.historical.on_spark.spark.using() as session:
        first = session.sparkContext.applicationId
    db.execute(FILLED)
    with db.engine.historical.on_spark.spark.using() as session:
        assert session.sparkContext.applicationId != first
    assert (db.engine.log.topics(), db.engine.catalog) != before
    db.wait()
    assert sorted(db.execute("SELECT item, n, total FROM o;")) == ROWS

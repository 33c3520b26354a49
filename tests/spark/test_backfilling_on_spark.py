"""A query whose past is computed on Spark goes on with what comes after it."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream
from millstream.model.settings import EngineSettings
from tests.spark.java import missing
from tests.unit.service.conftest import EARLIEST, ORDERS
from tests.unit.service.test_backfilling import COUNTS, PEOPLE, fill

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def test_it_goes_on_as_if_it_had_met_every_record(tmp_path: Path) -> None:
    if why := missing():
        pytest.skip(why)
    settings = EngineSettings(spark_master="local[2]", spark_options=QUICK)
    path = str(tmp_path / "orders.db")
    with millstream.connect(path, properties=EARLIEST, settings=settings) as db:
        db.execute(ORDERS + PEOPLE)
        fill(db, 0, 12)
        db.execute(COUNTS.replace("duckdb", "spark"))
        fill(db, 12, 15)
        db.wait()
        found = db.execute("SELECT item, n, total FROM o;")
        assert sorted(found) == [("i0", 5, 30.0), ("i1", 5, 35.0), ("i2", 5, 40.0)]
        assert not [status.error for status in db.engine.statuses() if status.error]

"""Threads that have nothing to do help the one that runs a query."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

import millstream
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.runtime import grouping
from millstream.runtime.runtime import Runtime
from millstream.scheduler.driver import Driver
from millstream.scheduler.scheduler import Scheduler
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.timeout(PATIENCE_S)


def driver_of(threads: int) -> Driver:
    runtime: Runtime[Any] = Runtime(None)  # type: ignore[arg-type]
    return Driver(runtime, lambda: 0, lambda: None, threads=threads)


def test_calls_are_made_at_the_same_time() -> None:
    driver = driver_of(2)
    driver.start()
    try:
        until(lambda: driver.workers.free == 2)
        meeting = threading.Barrier(3)

        def meet() -> int:
            meeting.wait(PATIENCE_S)
            return threading.get_ident()

        assert len(set(driver.workers.run([meet, meet, meet]))) == 3
    finally:
        driver.end(PATIENCE_S)
        driver.stop()


def test_the_caller_makes_the_calls_that_no_thread_takes() -> None:
    workers = driver_of(2).workers
    assert workers.free == 0
    assert workers.run([threading.get_ident] * 3) == [threading.get_ident()] * 3


def test_calls_are_made_after_the_end_of_the_threads() -> None:
    driver = driver_of(2)
    driver.start()
    driver.end(PATIENCE_S)
    driver.stop()
    assert driver.workers.run([lambda: 1, lambda: 2]) == [1, 2]


def test_an_error_is_raised_when_all_calls_have_ended() -> None:
    driver = driver_of(1)
    driver.start()
    failed, ended = threading.Event(), threading.Event()

    def fail() -> None:
        failed.set()
        raise ValueError("one")

    def last() -> None:
        assert failed.wait(PATIENCE_S)
        ended.set()

    try:
        until(lambda: driver.workers.free == 1)
        with pytest.raises(ValueError, match="one"):
            driver.workers.run([fail, last])
        assert ended.is_set()
        until(lambda: driver.workers.free == 1)
    finally:
        driver.end(PATIENCE_S)
        driver.stop()


def test_threads_that_are_asked_already_are_not_free() -> None:
    scheduler: Scheduler = driver_of(1).workers
    scheduler._idle = 2
    seen: list[int] = []
    scheduler.run([lambda: seen.append(scheduler.free), lambda: None])
    assert seen == [1]


SOURCE = """CREATE STREAM s (k INT KEY, n INT)
    WITH (KAFKA_TOPIC = 's', FORMAT = 'JSON', PARTITIONS = 4);"""
QUERIES = """
CREATE STREAM plain AS SELECT k, n + 1 AS n FROM s;
CREATE TABLE counted AS SELECT k, COUNT(*) AS c, SUM(n) AS n FROM s GROUP BY k;
CREATE TABLE grouped AS SELECT n % 7 AS g, COUNT(*) AS c FROM s GROUP BY n % 7;
"""


def send(db: millstream.Database, first: int) -> None:
    for partition in range(4):
        rows = [
            (str(n % 40).encode(), json.dumps({"N": n}).encode(), n)
            for n in range(first, first + 2000)
            if n % 4 == partition
        ]
        batch = raw_batch(rows)
        db.engine.writer.append([Appended("s", partition, batch, len(rows), batch.nbytes)])


def test_one_query_in_two_threads_makes_what_one_thread_makes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pull queries see the rows of all groups, and metrics and statuses one query."""
    monkeypatch.setattr(grouping, "STATEMENT_ROWS", 1)
    helped = []
    run = Scheduler.run
    monkeypatch.setattr(
        Scheduler, "run", lambda self, calls: helped.append(len(calls)) or run(self, calls)
    )
    found = []
    for threads in (1, 3):
        settings = millstream.EngineSettings(
            processing_threads=threads, max_batch_records=500, commit_interval_ms=5
        )
        properties = {"auto.offset.reset": "earliest"}
        with millstream.connect(settings=settings, properties=properties) as db:
            db.execute(SOURCE)
            if threads == 3:
                until(lambda: db.engine.driver.workers.free == 3)
            db.execute(QUERIES)
            for first in range(0, 6000, 2000):
                send(db, first)
                db.wait()
            found.append(
                (
                    sorted(db.execute("SELECT * FROM counted;")),
                    sorted(db.execute("SELECT * FROM grouped;")),
                    [(s.state, s.positions["s", 3]) for s in db.engine.statuses()],
                )
            )
    assert found[0] == found[1]
    assert helped

"""`wait` returns although rows go on arriving, and what was there before is counted then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import millstream
from millstream import Database
from millstream.queries import draining
from millstream.queries.registry import QueryRegistry
from millstream.query.session import Session
from millstream.runtime.subtopology_runners import SubTopologyRunners
from tests.patience import PATIENCE_S

MADE = """
CREATE STREAM rows_in (id INT KEY, k STRING, n INT)
  WITH (kafka_topic='rows_in', format='JSON', partitions=2);
CREATE STREAM odd AS SELECT * FROM rows_in WHERE n > 0 PARTITION BY n;
CREATE TABLE counted AS SELECT k, COUNT(*) AS cnt FROM odd GROUP BY k;
"""


@contextmanager
def arriving(db: Database) -> Iterator[threading.Event]:
    """Rows that arrive without a pause."""
    ended = threading.Event()

    def insert() -> None:
        own = Database(db.engine, Session())
        rows = [{"id": n, "k": "noise", "n": n + 1} for n in range(20)]
        while not ended.is_set():
            own.insert("rows_in", rows)

    thread = threading.Thread(target=insert)
    thread.start()
    try:
        yield ended
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_it_does_not_wait_for_what_arrives_later(
    guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "POLL_SECONDS", 0.01)
    properties = {"processing.guarantee": guarantee, "auto.offset.reset": "earliest"}
    with millstream.connect(properties=properties) as db:
        db.execute(MADE)
        with arriving(db) as ended:
            for number in range(1, 4):
                db.insert("rows_in", [{"id": number, "k": "asked", "n": number}])
                db.wait()
                found = db.execute("SELECT cnt FROM counted WHERE k = 'asked'").fetchall()
                assert found == [(number,)]
                assert not ended.is_set()
        db.wait()
        rows = sum(1 for _ in db.execute("SELECT * FROM rows_in"))
        assert sum(n for (n,) in db.execute("SELECT cnt FROM counted")) == rows


def test_it_waits_for_the_state_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of the positions is followed by that of the state."""
    monkeypatch.setattr(draining, "POLL_SECONDS", 0.01)
    reached, settle = draining._CatchUpTarget.reached, SubTopologyRunners.settle
    asked, looked, looks = threading.Event(), threading.Condition(), [0]

    def looking(self: draining._CatchUpTarget, registry: QueryRegistry) -> bool:
        with looked:
            looks[0] += 1
            looked.notify_all()
        return reached(self, registry)

    def late(self: SubTopologyRunners[Any], flushed: Any) -> int:
        with looked:
            enough = looks[0] + 3
            looked.wait_for(lambda: not asked.is_set() or looks[0] >= enough, PATIENCE_S)
        return settle(self, flushed)

    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(MADE)
        with arriving(db):
            monkeypatch.setattr(draining._CatchUpTarget, "reached", looking)
            monkeypatch.setattr(SubTopologyRunners, "settle", late)
            asked.set()
            db.insert("rows_in", [{"id": 1, "k": "asked", "n": 1}])
            db.wait()
            try:
                # Commits after it are held up until the answer is there.
                found = db.execute("SELECT cnt FROM counted WHERE k = 'asked'").fetchall()
            finally:
                with looked:
                    asked.clear()
                    looked.notify_all()
    assert found == [(1,)]


def test_stopped_queries_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "POLL_SECONDS", 0.01)
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(MADE)
        (writes,) = (name for name in db.engine.catalog.queries if "ODD" in name)
        db.execute(f"PAUSE {writes};")
        with arriving(db):
            db.wait()

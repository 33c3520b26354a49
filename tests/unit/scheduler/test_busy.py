"""Requests that work while the engine waits for its log."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import millstream
from millstream import Database
from tests.patience import PATIENCE_S


@pytest.fixture
def db() -> Iterator[Database]:
    with millstream.connect() as opened:
        opened.execute(
            "CREATE STREAM a (k STRING KEY, v INT) WITH (KAFKA_TOPIC='a', PARTITIONS=2,"
            " VALUE_FORMAT='JSON'); CREATE STREAM b AS SELECT k, v FROM a;"
        )
        opened.wait()
        yield opened


@pytest.mark.timeout(PATIENCE_S)
def test_the_states_of_queries_while_a_step_lasts(db: Database) -> None:
    inside, done = threading.Event(), threading.Event()

    def step() -> None:
        with db.engine.driver.lock:
            inside.set()
            done.wait()

    busy = threading.Thread(target=step)
    busy.start()
    inside.wait()
    try:
        assert [status.state.value for status in db.engine.statuses()] == ["RUNNING"]
        assert [status.state.value for status in db.engine.statuses()] == ["RUNNING"]
    finally:
        done.set()
        busy.join()
    db.execute("INSERT INTO a VALUES ('x', 1);")
    db.wait()
    assert sum(db.engine.statuses()[0].lag.values()) == 0


@pytest.mark.timeout(PATIENCE_S)
def test_the_lock_is_free_while_the_log_is_asked_for_its_ends(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []

    def asked(_: object) -> dict[tuple[str, int], int]:
        def take() -> None:
            with db.engine.driver.lock:
                taken.append(True)

        other = threading.Thread(target=take)
        other.start()
        other.join()
        return {}

    monkeypatch.setattr(db.engine.log, "end_offsets", asked)
    (status,) = db.engine.statuses()
    assert taken == [True]
    assert set(status.lag.values()) == {-1}

"""A processor whose call does not return: the status says where it is, and nobody else waits."""

from __future__ import annotations

import asyncio
import threading

import pytest

import millstream
from millstream import AsyncProcessor, Database, Processor, Record, Rows, UnavailableError
from millstream.scheduler import driver, running_steps
from tests.patience import PATIENCE_S, until

GO_ON = threading.Event()


class Hanging(Processor):
    output = "k STRING KEY, n INT"

    def process(self, record: Record) -> None:
        self.ask_a_server_that_does_not_answer()

    def ask_a_server_that_does_not_answer(self) -> None:
        GO_ON.wait(PATIENCE_S)


@pytest.fixture
def hanging(db: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    GO_ON.clear()
    monkeypatch.setattr(running_steps, "LONG_SECONDS", 0.0)
    db.register(millstream.processor(Hanging))
    db.execute("""
        CREATE STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, FORMAT='JSON');
        CREATE STREAM slow AS SELECT * FROM PROCESS(s, 'Hanging');
        CREATE STREAM quick AS SELECT k, n FROM s;
    """)
    return db


def status(db: Database, query_id: str) -> str:
    explained = db.execute(f"EXPLAIN {query_id}")
    assert isinstance(explained, Rows)
    (facts,) = [text for stage, text in explained if stage == "QUERY"]
    return str(facts).partition("Sources: ")[0]


def test_the_status_says_where_it_is(hanging: Database) -> None:
    slow, quick = sorted(hanging.engine.catalog.queries, key=lambda name: "SLOW" not in name)
    try:
        hanging.insert("s", [("a", 1)])
        until(lambda: "ask_a_server" in hanging.metrics().query(slow).long_step)
        said = status(hanging, slow)
        assert "RUNNING: a step of it has been running for " in said
        assert "GO_ON.wait(PATIENCE_S)" in said and "in ask_a_server_that_does_not_answer" in said
        # Only what users have written, and what that has called.
        assert "runtime" not in said and "_run" not in said
        until(lambda: hanging.metrics().query(quick).traffic.records_out == 1)
    finally:
        GO_ON.set()
    hanging.wait()
    assert hanging.metrics().query(slow).long_step == ""
    assert status(hanging, slow).endswith("Status: RUNNING\n")


def test_a_statement_that_waits_for_it_says_so(
    hanging: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "REMOVE_SECONDS", 0.1)
    try:
        hanging.insert("s", [("a", 1)])
        (slow,) = [name for name in hanging.engine.catalog.queries if "SLOW" in name]
        until(lambda: "ask_a_server" in hanging.metrics().query(slow).long_step)
        with pytest.raises(UnavailableError, match="ask_a_server_that_does_not_answer") as failure:
            hanging.execute(f"TERMINATE {slow}")
        assert failure.value.code == "E-QUERY-BUSY"
    finally:
        GO_ON.set()


def test_short_steps_are_not_shown(db: Database) -> None:
    steps = running_steps.RunningSteps()
    steps.begin("q")
    assert steps.long("q") == steps.long("other") == ""
    steps.end("q")
    steps.end("q")


class Waiting(AsyncProcessor):
    output = "k STRING KEY, n INT"

    async def process(self, record: Record) -> None:
        await self.ask_a_server_that_does_not_answer()

    async def ask_a_server_that_does_not_answer(self) -> None:
        while not GO_ON.is_set():
            await asyncio.sleep(0.01)


def test_the_status_says_where_calls_wait(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    GO_ON.clear()
    monkeypatch.setattr(running_steps, "LONG_SECONDS", 0.0)
    db.register(millstream.processor(Waiting))
    db.execute("""
        CREATE STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, FORMAT='JSON');
        CREATE STREAM slow AS SELECT * FROM PROCESS(s, 'Waiting');
    """)
    (slow,) = db.engine.catalog.queries
    try:
        db.insert("s", [(f"k{n}", n) for n in range(50)])
        until(lambda: "await asyncio.sleep" in db.metrics().query(slow).long_step)
        said = db.metrics().query(slow).long_step
    finally:
        GO_ON.set()
    assert "in ask_a_server_that_does_not_answer" in said and "await self.ask_a_server" in said
    assert said.count("in process") == 1, "calls that wait in one place are shown once"
    assert "async_processor.py" not in said and "selectors" not in said

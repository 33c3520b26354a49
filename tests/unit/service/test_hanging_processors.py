"""A processor whose call does not return: the status says where it is, and nobody else waits."""

from __future__ import annotations

import threading

import pytest

import millstream
from millstream import Database, Processor, Record, Rows, UnavailableError
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

"""`millstream datagen` and `millstream demo`: the rows, their rate, and what goes wrong."""

from __future__ import annotations

import io
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest

import millstream
from millstream.connectors.presets import PRESETS, Row
from millstream.model.clock import now_ms
from millstream.model.errors import StatementError, UnavailableError
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.execution import open_engine
from millstream_cli.datagen import demo, generating
from millstream_cli.datagen.generating import Plan, generate
from millstream_cli.main import main
from tests.served import served

Captured = pytest.CaptureFixture[str]


class Kept:
    """Takes rows."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.inserts = 0

    def insert(self, target: str, data: list[Row]) -> int:
        assert target == "them"
        self.rows += data
        self.inserts += 1
        return len(data)


def generated(preset: str, count: int, seed: int) -> list[Row]:
    kept = Kept()
    for _ in generate(kept, Plan(PRESETS[preset], "them", 0, count, seed), threading.Event()):
        pass
    return kept.rows


@pytest.mark.parametrize("preset", PRESETS)
def test_every_row_fits_its_stream(preset: str, tmp_path: Path, capsys: Captured) -> None:
    file = str(tmp_path / "x.db")
    assert main(["datagen", preset, file, "--iterations", "250", "--rate", "0"]) == 0
    assert main(["datagen", preset, file, "--iterations", "1", "--rate", "0", "--print"]) == 0
    shown = capsys.readouterr().out
    assert f"250 rows inserted into {preset}" in shown and "{'" in shown
    with millstream.connect(file) as db:
        batches = [db.engine.log.read(preset, at, 0, 1000).batch for at in range(4)]
        rows = [row for batch in batches for row in batch.to_pylist()]
    assert len(rows) == 251
    assert all(row["key"] for row in rows), "every row has a key"


@pytest.mark.parametrize("preset", PRESETS)
def test_a_seed_gives_the_same_rows(preset: str) -> None:
    def without_times(rows: list[Row]) -> list[dict[str, Any]]:
        times = {"ordertime", "viewtime", "rating_time", "time", "datetime"}
        return [{k: v for k, v in row.items() if k not in times} for row in rows]

    once, again = generated(preset, 1100, 7), generated(preset, 1100, 7)
    assert without_times(once) == without_times(again)
    assert without_times(once) != without_times(generated(preset, 1100, 8))


def test_users_of_pageviews_are_those_of_users() -> None:
    users = {row["userid"] for row in generated("users", 500, 1)}
    assert {row["userid"] for row in generated("pageviews", 500, 2)} == users
    assert len(users) == 10


def test_rows_come_at_their_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that only waiting moves."""
    clock = [0.0]
    monkeypatch.setattr(generating.time, "monotonic", lambda: clock[0])

    class Waited(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            clock[0] += timeout or 0
            return self.is_set()

    kept = Kept()
    for _ in generate(kept, Plan(PRESETS["bids"], "them", 25, 500), Waited()):
        pass
    assert len(kept.rows) == 500
    assert 19 <= clock[0] <= 21
    assert kept.inserts <= 210, "rows that are due at about the same time are inserted together"


def test_it_ends_when_it_is_told_to() -> None:
    kept, ended = Kept(), threading.Event()
    for count, _ in enumerate(generate(kept, Plan(PRESETS["bids"], "them", 0), ended)):
        if count == 2:
            ended.set()
    assert kept.inserts == 3


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("datagen", "WHAT"),
        ("datagen nothing x.db", "invalid choice: 'nothing'"),
        ("datagen orders", "give a database's file"),
        ("datagen orders x.db --kafka localhost:1", "give a database's file"),
        ("datagen orders x.db --rate fast", "for all speed, not 'fast'"),
        ("datagen orders x.db --rate -1", "for all speed, not '-1'"),
        ("datagen orders x.db --rate nan", "for all speed, not 'nan'"),
        ("datagen orders x.db --iterations -3", "a number of rows"),
        ("datagen orders http://localhost:1 -p secret", "a password is given, but no user"),
        ("datagen orders http://localhost:1 -t x -u ann", "a token is given and a user as well"),
        ("doctor --server http://localhost:1 -p secret", "a password is given, but no user"),
        ("demo a.db b.db", "unrecognized arguments"),
        ("demo a.db --user ann", "credentials are for a server"),
        ("demo http://localhost:1 --kafka localhost:2", "--kafka is for a database here"),
        ("demo http://localhost:1 --password x", "no user"),
    ],
)
def test_what_is_typed_wrongly(line: str, words: str, capsys: Captured, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as left:
        main(line.split())
    assert left.value.code == 2
    assert words in capsys.readouterr().err


def test_a_stream_of_that_name_with_other_columns(tmp_path: Path, capsys: Captured) -> None:
    file = str(tmp_path / "x.db")
    with millstream.connect(file) as db:
        db.execute(
            "CREATE STREAM orders (a INT) WITH (KAFKA_TOPIC='o', PARTITIONS=1, FORMAT='JSON');"
        )
    assert main(["datagen", "orders", file, "--iterations", "1"]) == 1
    assert "ORDERTIME" in capsys.readouterr().err
    assert main(["datagen", "orders", file, "--iterations", "1", "--name", "others"]) == 0


def test_the_demo_counts(monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path) -> None:
    file = str(tmp_path / "demo.db")
    for _ in range(2):  # the second time, everything is there
        text = "SELECT * FROM orders_by_city; SHOW TABLES;"
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        assert main(["demo", file, "--rate", "50"]) == 0
        shown = capsys.readouterr().out
        assert "HIGHEST_BIDS" in shown and "VIEWS_BY_REGION" in shown
        assert "City_" in shown, "the first query shows something"
    with millstream.connect(file) as db:
        db.wait()
        orders = sum(n for (n,) in db.execute("SELECT orders FROM orders_by_city;"))
        assert orders >= 2
        assert all(not status.error for status in db.engine.statuses())


def test_the_demo_counts_on_a_server(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    try:
        with served(engine) as door:
            monkeypatch.setattr(sys, "stdin", io.StringIO("SHOW QUERIES; SHOW TABLES;"))
            assert main(["demo", door.url, "--rate", "50"]) == 0
            shown = capsys.readouterr().out
            assert "HIGHEST_BIDS" in shown and "VIEWS_BY_REGION" in shown
            engine.drain()
            with millstream.connect(door.url) as db:
                orders = sum(n for (n,) in db.execute("SELECT orders FROM orders_by_city;"))
            assert orders >= 1
    finally:
        engine.close()


def test_the_demo_says_why_rows_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    def insert(self: object, target: str, data: object) -> int:
        raise UnavailableError("the disk is full")

    with millstream.connect() as db:
        monkeypatch.setattr(millstream.Database, "insert", insert)
        with demo.arriving(lambda: db, 10) as failures:
            pass
    assert [error.message for error in failures] == ["the disk is full"] * len(demo.SOURCES)


def test_the_statements_of_the_greeting_are_right() -> None:
    with millstream.connect() as db:
        for name in demo.SOURCES:
            db.execute(PRESETS[name].create(name))
        db.execute(demo.QUERIES)
        told = Random(0).sample(demo.GREETING.splitlines(), len(demo.GREETING.splitlines()))
        lines = [line.partition("--")[0] for line in told if line.startswith("  ")]
        assert len(lines) == 4
        for line in lines:
            own = millstream.Database(db.engine, Session())
            try:
                found = own.execute(line)
            except StatementError as error:
                pytest.fail(f"{line}: {error}")
            close = getattr(found, "close", None)
            if close is not None:
                close()

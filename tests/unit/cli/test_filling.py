"""A back-fill in the shell: its progress, of an engine here and of a server, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable

import pytest

import millstream
from millstream import udf
from millstream.history.progress import StageProgress
from millstream.history.watch import Watch
from millstream.model.errors import UnavailableError
from millstream_cli.sessions.filling import asked, fills, followed
from millstream_cli.sessions.interrupts import Interrupt
from millstream_cli.sessions.local import LocalSession
from tests.patience import PATIENCE_S
from tests.unit.conftest import ORDERS

FILLED = (
    "CREATE TABLE o WITH (BACKFILL = 'duckdb') AS SELECT item, COUNT(*) AS n FROM orders"
    " WHERE PRESSING(item) = item GROUP BY item;"
)
FIGURES = """
# TYPE millstream_backfill_done gauge
millstream_backfill_done{sink="O",stage="stage 3"} 2
# TYPE millstream_backfill_size gauge
millstream_backfill_size{sink="O",stage="stage 3"} 8
"""


class Told:
    """The last report, and that there was one."""

    def __init__(self) -> None:
        self.last: tuple[int, int | None, str] | None = None
        self.news = threading.Event()

    def __call__(self, done: int, total: int | None, name: str = "rows") -> None:
        self.last = done, total, name
        self.news.set()


def test_progress_is_reported_while_the_job_runs() -> None:
    told = Told()
    with followed(told, Interrupt()) as follow:
        watch = Watch("O")
        watch.show("read", 2, 8)
        follow(watch)
        assert told.news.wait(PATIENCE_S)
    assert told.last == (2, 8, "O: read")
    assert not watch.cancelled.is_set()


def test_ctrl_c_ends_the_job() -> None:
    with followed(None, Interrupt(wanted=True)) as follow:
        watch = Watch("O")
        follow(watch)
        assert watch.cancelled.wait(PATIENCE_S)


def test_ctrl_c_at_the_prompt_leaves_no_trace() -> None:
    def pressing(value: str) -> str:
        (watch,) = db.engine.historical.backfills
        os.kill(os.getpid(), signal.SIGINT)
        assert watch.cancelled.wait(PATIENCE_S)
        return value

    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.register(udf("PRESSING", "STRING -> STRING", pressing))
        db.execute(ORDERS + "INSERT INTO orders VALUES ('ann', 'tea', 1);")
        before = db.engine.log.topics(), db.engine.catalog
        with pytest.raises(UnavailableError, match="cancelled; nothing was made"):
            list(LocalSession(db).run(FILLED))
        assert (db.engine.log.topics(), db.engine.catalog) == before


def test_the_figures_of_a_server_are_progress_too() -> None:
    told = Told()
    with asked(told, lambda: fills(FIGURES)):
        assert told.news.wait(PATIENCE_S)
    assert told.last == (2, 8, "O: stage 3")


def test_a_server_need_not_tell() -> None:
    told, refused = Told(), threading.Event()

    def figures() -> Iterable[StageProgress]:
        refused.set()
        raise UnavailableError("Cannot reach the server")

    with asked(told, figures):
        assert refused.wait(PATIENCE_S)
    assert told.last is None

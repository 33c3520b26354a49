"""Retrying during a temporary conflict, and DuckDB, the reason for it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from millstream.log.logfile import LogFile
from millstream.model.retry import retry_until
from millstream.state.store import Store

PATIENCE_S = 60


def test_until_the_conflict_is_over() -> None:
    left = [BlockingIOError(), BlockingIOError()]

    def action() -> None:
        if left:
            raise left.pop()

    retry_until(action, BlockingIOError)
    assert not left


def test_another_failure_gets_through_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        retry_until(lambda: print(1 // 0), BlockingIOError)


def test_patience_ends() -> None:
    def action() -> None:
        raise BlockingIOError

    with pytest.raises(BlockingIOError):
        retry_until(action, BlockingIOError, seconds=0)


@pytest.mark.parametrize("room", ["log", "state"])
def test_closing_awaits_the_statement_of_a_cursor(room: str, tmp_path: Path) -> None:
    """Fails with ResourceInUseException where DuckDB's refusal gets through."""
    path = str(tmp_path / "file")
    root = duckdb.connect(path)
    started, go = threading.Event(), threading.Event()

    def slow(n: int) -> int:
        started.set()
        assert go.wait(PATIENCE_S)
        return n

    root.create_function("slow", slow, ["BIGINT"], "BIGINT")
    closing = LogFile(path, root) if room == "log" else Store(root, "file")
    cursor = root.cursor()
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(lambda: cursor.sql("SELECT slow(7)").fetchall())
        assert started.wait(PATIENCE_S)
        with pytest.raises(duckdb.ResourceInUseException):
            root.close()
        closed = pool.submit(closing.close)
        go.set()
        assert answer.result(PATIENCE_S) == [(7,)]
        closed.result(PATIENCE_S)
    with pytest.raises(duckdb.ConnectionException):
        root.execute("SELECT 1")

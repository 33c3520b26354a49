"""Bounds on how long a statement may keep DuckDB busy, and on what it may answer."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from millstream.model.errors import UnavailableError
from millstream.service import wordings
from millstream.service.session import Bounds

_AGAIN_S = 0.05
"""An interrupt between two statements is lost: it is repeated until the work has ended."""

BATCH_ROWS = 65_536
TIMED_OUT = "E-TIMEOUT"
TIMEOUT = "millstream.query.pull.timeout.ms"


def collected(cursor: duckdb.DuckDBPyConnection, text: str, bounds: Bounds) -> pa.Table:
    """The rows of a query; StatementError (E-RESULT-LIMIT) where they are more than the bounds."""
    relation = cursor.sql(text)
    if bounds.rows is None and bounds.bytes is None:
        return relation.to_arrow_table()
    reader = relation.to_arrow_reader(BATCH_ROWS)
    batches, rows, size = [], 0, 0
    for batch in reader:
        rows, size = rows + batch.num_rows, size + batch.nbytes
        check_size(rows, size, bounds)
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def check_size(rows: int, size: int, bounds: Bounds) -> None:
    """StatementError (E-RESULT-LIMIT) where an answer is larger than it may be."""
    for most, found, unit in ((bounds.rows, rows, "rows"), (bounds.bytes, size, "bytes")):
        if most is not None and found > most:
            raise wordings.ANSWER_TOO_LONG(
                most=most,
                unit=unit,
                hint="Ask for less with WHERE or LIMIT.",
                code="E-RESULT-LIMIT",
            )


class Patience:
    """The time that one answer may take, spent piece by piece; for ever without a limit."""

    def __init__(self, limit_ms: int | None) -> None:
        self._limit_ms = limit_ms
        self._left = math.inf if limit_ms is None else limit_ms / 1000

    @contextmanager
    def spent_on(self, end: Callable[[], None]) -> Iterator[None]:
        """Spend what work takes. When no time is left `end` is called, which makes the work fail:
        with UnavailableError (E-TIMEOUT) then."""
        if self._limit_ms is None:
            yield
            return
        if self._left <= 0:
            raise self._ended()
        begun, over = time.monotonic(), threading.Event()
        try:
            with _after(self._left, end, over):
                yield
        except Exception as error:
            if not over.is_set():
                raise
            raise self._ended() from error
        finally:
            self._left -= time.monotonic() - begun

    def _ended(self) -> UnavailableError:
        return UnavailableError(
            f"The pull query was ended: it took longer than {self._limit_ms} ms.",
            hint=f"Ask for less; where the server allows more, SET '{TIMEOUT}'.",
            code=TIMED_OUT,
        )


@contextmanager
def _after(seconds: float, end: Callable[[], None], over: threading.Event) -> Iterator[None]:
    """Call `end` when the time is over, until the work has ended."""
    ended = threading.Event()

    def watch() -> None:
        wait = seconds
        while not ended.wait(wait):
            over.set()
            end()
            wait = _AGAIN_S

    watcher = threading.Thread(target=watch, name="millstream-limit", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@contextmanager
def within(cursor: duckdb.DuckDBPyConnection, limit_ms: int | None) -> Iterator[None]:
    """End what `cursor` runs after so many ms, with UnavailableError (E-TIMEOUT).

    Ctrl-C ends it too, as a KeyboardInterrupt.
    """
    try:
        with Patience(limit_ms).spent_on(cursor.interrupt):
            yield
    except RuntimeError as error:
        # DuckDB's answer to SIGINT while it runs.
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from error
        raise

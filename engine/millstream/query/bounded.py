"""Limits the time that a statement takes in DuckDB, and the size of its result."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from millstream.model.errors import UnavailableError
from millstream.query import wordings
from millstream.query.session import Bounds

_INTERRUPT_INTERVAL_S = 0.05
"""An interrupt between two DuckDB statements is lost, so it is repeated until the work ends."""

BATCH_ROWS = 65_536
TIMED_OUT = "E-TIMEOUT"
TIMEOUT = "millstream.query.pull.timeout.ms"


def collected(cursor: duckdb.DuckDBPyConnection, text: str, bounds: Bounds) -> pa.Table:
    """The rows of a query; raises StatementError (E-RESULT-LIMIT) if they exceed the bounds."""
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
    """Raise StatementError (E-RESULT-LIMIT) if a result exceeds the bounds."""
    for limit, actual, unit in ((bounds.rows, rows, "rows"), (bounds.bytes, size, "bytes")):
        if limit is not None and actual > limit:
            raise wordings.ANSWER_TOO_LONG(
                most=limit,
                unit=unit,
                hint="Restrict the result with WHERE or LIMIT.",
                code="E-RESULT-LIMIT",
            )


class TimeBudget:
    """The time that one result may take over all its batches; unlimited if `limit_ms` is None."""

    def __init__(self, limit_ms: int | None) -> None:
        self._limit_ms = limit_ms
        self._seconds_left = math.inf if limit_ms is None else limit_ms / 1000

    @contextmanager
    def spend(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Deduct the time of the `with` block. When no time is left, `interrupt` is called to make
        the block fail, and its error becomes UnavailableError (E-TIMEOUT)."""
        if self._limit_ms is None:
            yield
            return
        if self._seconds_left <= 0:
            raise self._timeout_error()
        started, expired = time.monotonic(), threading.Event()
        try:
            with _interrupt_after(self._seconds_left, interrupt, expired):
                yield
        except Exception as error:
            if not expired.is_set():
                raise
            raise self._timeout_error() from error
        finally:
            self._seconds_left -= time.monotonic() - started

    def _timeout_error(self) -> UnavailableError:
        return UnavailableError(
            f"The pull query was ended: it took longer than {self._limit_ms} ms.",
            hint=f"Restrict the result; if the server allows more time, SET '{TIMEOUT}'.",
            code=TIMED_OUT,
        )


@contextmanager
def _interrupt_after(
    seconds: float, interrupt: Callable[[], None], expired: threading.Event
) -> Iterator[None]:
    """Call `interrupt` after `seconds`, again and again until the `with` block ends."""
    finished = threading.Event()

    def watch() -> None:
        wait = seconds
        while not finished.wait(wait):
            expired.set()
            interrupt()
            wait = _INTERRUPT_INTERVAL_S

    watcher = threading.Thread(target=watch, name="millstream-limit", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


@contextmanager
def within(cursor: duckdb.DuckDBPyConnection, limit_ms: int | None) -> Iterator[None]:
    """Interrupt the statements of `cursor` after `limit_ms`; raises UnavailableError (E-TIMEOUT)
    then.

    Ctrl-C interrupts them too, and raises KeyboardInterrupt.
    """
    try:
        with TimeBudget(limit_ms).spend(cursor.interrupt):
            yield
    except RuntimeError as error:
        # DuckDB raises RuntimeError if SIGINT arrives while it runs.
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from error
        raise

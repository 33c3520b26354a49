"""A bound on how long a statement may keep DuckDB busy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

_AGAIN_S = 0.05
"""An interrupt between two statements is lost: it is repeated until the work has ended."""


@contextmanager
def bounded(cursor: duckdb.DuckDBPyConnection, limit_ms: int) -> Iterator[None]:
    """Interrupt what `cursor` runs after `limit_ms` (it raises duckdb.InterruptException then).

    Ctrl-C ends it too, as a KeyboardInterrupt.
    """
    ended = threading.Event()

    def watch() -> None:
        wait = limit_ms / 1000
        while not ended.wait(wait):
            cursor.interrupt()
            wait = _AGAIN_S

    watcher = threading.Thread(target=watch, name="millstream-limit", daemon=True)
    watcher.start()
    try:
        yield
    except RuntimeError as error:
        # DuckDB's answer to SIGINT while it runs.
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from error
        raise
    finally:
        ended.set()
        watcher.join()

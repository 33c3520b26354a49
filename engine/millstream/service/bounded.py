"""A bound on how long a statement may keep DuckDB busy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb


@contextmanager
def bounded(cursor: duckdb.DuckDBPyConnection, limit_ms: int) -> Iterator[None]:
    """Interrupt what `cursor` runs after `limit_ms` (it raises duckdb.InterruptException then).

    Ctrl-C ends it too, as a KeyboardInterrupt.
    """
    timer = threading.Timer(limit_ms / 1000, cursor.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except RuntimeError as error:
        # DuckDB's answer to SIGINT while it runs.
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from error
        raise
    finally:
        timer.cancel()

"""Bounds on how long a statement may keep DuckDB busy, and on what it may answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from millstream.model.errors import StatementError
from millstream.service.session import Bounds

_AGAIN_S = 0.05
"""An interrupt between two statements is lost: it is repeated until the work has ended."""

BATCH_ROWS = 65_536


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
            raise StatementError(
                f"The answer has more than {most} {unit}.",
                hint="Ask for less with WHERE or LIMIT.",
                code="E-RESULT-LIMIT",
            )


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

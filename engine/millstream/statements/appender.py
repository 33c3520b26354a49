"""Collects the rows of producers in this process and inserts them in batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from millstream.model.errors import MillstreamError
from millstream.statements import wordings
from millstream.statements.row_tables import RowValues

BATCH_ROWS = 10_000
InsertBatch = Callable[[Sequence[RowValues], int], int]
"""Inserts rows, all or none; the second is the number of rows before them, for errors."""


class Appender:
    """Inserts rows in batches; see `Database.append`. Its methods may be called in any thread."""

    def __init__(self, target: str, insert: InsertBatch, batch_rows: int) -> None:
        self.pending: list[RowValues] = []
        """The rows that are not inserted yet. After an error, those of the batch that failed."""
        self.inserted = 0
        """The number of rows that are inserted."""
        self._target = target
        self._insert = insert
        self._batch_rows = batch_rows
        # Held during an insert, too: the others must not add rows faster than they are inserted.
        self._lock = threading.Lock()
        self._failure: MillstreamError | None = None
        self._closed = False

    def add(self, row: RowValues) -> None:
        """Add a row. If it completes a batch, this inserts the batch, and raises MillstreamError if
        that fails."""
        with self._lock:
            self._check()
            self.pending.append(row)
            if len(self.pending) >= self._batch_rows:
                self._flush()

    def flush(self) -> None:
        """Insert the rows that were added so far."""
        with self._lock:
            self._check()
            self._flush()

    def close(self) -> None:
        """Insert the rows that are left, and take no more; idempotent. Raises MillstreamError if a
        batch has failed, in any thread."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._check_failure()
            self._flush()

    def __enter__(self) -> Appender:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        if error_type is None:
            self.close()
            return
        with self._lock:
            self._closed = True
            if self._failure is None:
                self.pending = []

    def _check(self) -> None:
        self._check_failure()
        if self._closed:
            raise wordings.ROWS_REFUSED(given=f"the appender of {self._target} is closed")

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise wordings.ROWS_REFUSED(
                given=f"the appender of {self._target} has failed", detail=str(self._failure)
            ) from self._failure

    def _flush(self) -> None:
        if not self.pending:
            return
        try:
            self.inserted += self._insert(self.pending, self.inserted)
        except MillstreamError as failure:
            self._failure = failure
            raise
        self.pending = []


def open_appender(target: str, insert: InsertBatch, batch_rows: int) -> Appender:
    """An appender for a stream or table. Raises StatementError if it takes no rows."""
    if batch_rows < 1:
        raise wordings.ROWS_REFUSED(given=f"batches of {batch_rows} rows")
    insert([], 0)
    return Appender(target, insert, batch_rows)

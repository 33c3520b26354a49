"""Lets one thread end the statement that another one runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb

from millstream.log.logfile import LogFile


class InterruptibleStatement:
    """The statement of the cursor that is in use, if there is one."""

    def __init__(self) -> None:
        self._cursor: duckdb.DuckDBPyConnection | None = None

    @contextmanager
    def cursor(self, file: LogFile) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor whose statements `interrupt` ends."""
        with file.cursor() as cursor:
            self._cursor = cursor
            try:
                yield cursor
            finally:
                self._cursor = None

    def interrupt(self) -> None:
        """End the statement that runs now; callable from any thread."""
        cursor = self._cursor
        if cursor is not None:
            # It may have been closed since.
            with suppress(duckdb.Error):
                cursor.interrupt()

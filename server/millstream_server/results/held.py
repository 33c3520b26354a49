"""Bounds the rows of finished pull queries that their clients have not read."""

from __future__ import annotations

import threading
import weakref

import pyarrow as pa

from millstream_server.failures import TOO_MANY, RefusedError


class HeldRows:
    """Counts their bytes. A table counts until it is no longer referenced, so that every way in
    which a response can end is covered. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        # The same thread may collect tables while it holds this lock.
        self._lock = threading.RLock()

    @property
    def size(self) -> int:
        """The current unread bytes."""
        return self._bytes

    def hold(self, table: pa.Table) -> None:
        """Count a table; raises RefusedError if the total would exceed the limit."""
        size = table.nbytes
        with self._lock:
            if self._bytes and self._bytes + size > self._bytes_max:
                raise RefusedError(
                    TOO_MANY,
                    f"Clients have not read {self._bytes} bytes of answers yet, and the limit is"
                    f" {self._bytes_max}; try again later",
                    headers={"retry-after": "1"},
                )
            self._bytes += size
        weakref.finalize(table, self._release, size)

    def _release(self, size: int) -> None:
        with self._lock:
            self._bytes -= size

"""The rows of finished pull queries that wait for their clients to take them."""

from __future__ import annotations

import threading
import weakref

import pyarrow as pa

from millstream_server.failures import TOO_MANY, RefusedError


class HeldRows:
    """How many bytes they are. A table counts until nothing refers to it any more, so that no way
    in which an answer may end is forgotten. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        # Tables may be collected while this is held, by the same thread.
        self._lock = threading.RLock()

    @property
    def size(self) -> int:
        """The bytes that wait now."""
        return self._bytes

    def hold(self, table: pa.Table) -> None:
        """Count a table; RefusedError where it would be too much beside the others."""
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

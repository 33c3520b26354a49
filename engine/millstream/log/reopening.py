"""A writer that reopens after errors, for occasional appends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic

from millstream.log.log import Appended, Batch, Writer
from millstream.model.errors import FencedError, MillstreamError, UnavailableError


class ReopeningWriter(Generic[Batch]):
    """Appends for many threads, one at a time, as one identity. A writer with an append of unknown
    outcome is unusable, and the next append opens another one."""

    def __init__(self, open_writer: Callable[[], Writer[Batch]], *, own: bool) -> None:
        """`own`: the identity belongs to this process alone; a process that fenced it took this one
        for dead, so it is taken back."""
        self._open_writer = open_writer
        self._own = own
        self._lock = threading.Lock()
        self._writer: Writer[Batch] | None = None

    def open(self) -> None:
        """Fence earlier writers of the identity now rather than with the first append."""
        with self._lock:
            self._opened()

    def append(self, appended: Sequence[Appended[Batch]]) -> None:
        """See `Writer`."""
        with self._lock:
            try:
                self._try(appended)
            except FencedError:
                if not self._own:
                    raise
                self._discard()
                self._try(appended)

    def close(self) -> None:
        """Give up the identity; idempotent."""
        with self._lock:
            self._discard()

    def _try(self, appended: Sequence[Appended[Batch]]) -> None:
        try:
            self._opened().append(appended)
        except UnavailableError:
            self._discard()
            raise

    def _opened(self) -> Writer[Batch]:
        if self._writer is None:
            self._writer = self._open_writer()
        return self._writer

    def _discard(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(MillstreamError):
                writer.close()

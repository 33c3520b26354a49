"""The back-fills of a request, which end with it."""

from __future__ import annotations

import threading

from millstream.history.watch import Watch


class Filling:
    """The jobs that its statements start, one after another. Cancelled from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watch: Watch | None = None
        self._cancelled = False

    def begin(self, watch: Watch) -> None:
        """Note the start of a job."""
        with self._lock:
            self._watch = watch
            if self._cancelled:
                watch.cancel()

    def cancel(self) -> None:
        """Cancel because the client has disconnected."""
        with self._lock:
            self._cancelled = True
            if self._watch is not None:
                self._watch.cancel()

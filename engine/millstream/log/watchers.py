"""Callbacks to run after records have been appended."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Watchers:
    """Callbacks, from any thread; the tuple is replaced rather than changed."""

    def __init__(self) -> None:
        self._callbacks: tuple[Callable[[], None], ...] = ()
        self._lock = threading.Lock()

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` from now on; returns a function that unsubscribes."""
        with self._lock:
            self._callbacks = (*self._callbacks, callback)

        def cancel() -> None:
            with self._lock:
                self._callbacks = tuple(c for c in self._callbacks if c is not callback)

        return cancel

    def call(self) -> None:
        """Call all of them."""
        for callback in self._callbacks:
            callback()

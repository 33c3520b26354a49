"""A fair reentrant lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class FairRLock:
    """A reentrant lock that a waiting thread gets before the thread that releases it. With a plain
    lock, a thread that releases it only to take it again at once starves all others."""

    def __init__(self) -> None:
        self._queue = threading.Lock()
        self._held = threading.Lock()
        self._owner = 0
        self._depth = 0

    def __enter__(self) -> None:
        if self._owner != threading.get_ident():
            with self._queue:
                self._held.acquire()
            self._owner = threading.get_ident()
        self._depth += 1

    @contextmanager
    def tried(self, seconds: float) -> Iterator[None]:
        """Hold the lock if it can be had within `seconds`; else run the block without it. For
        readers that tolerate inconsistent data."""
        if self._owner == threading.get_ident():
            yield
            return
        until = time.monotonic() + seconds
        if not self._queue.acquire(timeout=seconds):
            yield
            return
        try:
            had = self._held.acquire(timeout=max(0.0, until - time.monotonic()))
        finally:
            self._queue.release()
        try:
            yield
        finally:
            if had:
                self._held.release()

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = 0
            self._held.release()

"""A fair lock that its owner may take again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class FairRLock:
    """A lock whose owner may take it again, and that goes to who has waited: without that, a
    thread that lets go only to take it at once keeps everybody out."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._held = threading.Lock()
        self._owner = 0
        self._depth = 0

    def __enter__(self) -> None:
        if self._owner != threading.get_ident():
            with self._turn:
                self._held.acquire()
            self._owner = threading.get_ident()
        self._depth += 1

    @contextmanager
    def tried(self, seconds: float) -> Iterator[None]:
        """The lock, or nothing when it cannot be had so soon: for those who only look."""
        if self._owner == threading.get_ident():
            yield
            return
        until = time.monotonic() + seconds
        if not self._turn.acquire(timeout=seconds):
            yield
            return
        try:
            had = self._held.acquire(timeout=max(0.0, until - time.monotonic()))
        finally:
            self._turn.release()
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

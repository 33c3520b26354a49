"""Callbacks that learn of news: which topics have grown, and what else has changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class News:
    """What may be worth a look; a name too many is harmless. `grown`: topics that may have more to
    read. `changed`: topics that were made or deleted, and groups whose assignment has changed."""

    grown: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()


OnNews = Callable[[News], None]
"""Called from the thread that caused the news, so it must be fast."""


def grown(topics: Iterable[str]) -> News:
    """News of topics that may have more to read."""
    return News(grown=frozenset(topics))


def changed(*names: str) -> News:
    """News of topics that were made or deleted, or of groups whose assignment has changed."""
    return News(changed=frozenset(names))


class Watchers:
    """Callbacks, from any thread; the tuple is replaced rather than changed."""

    def __init__(self) -> None:
        self._callbacks: tuple[OnNews, ...] = ()
        self._lock = threading.Lock()

    def add(self, callback: OnNews) -> Callable[[], None]:
        """Call `callback` from now on; returns a function that unsubscribes."""
        with self._lock:
            self._callbacks = (*self._callbacks, callback)

        def cancel() -> None:
            with self._lock:
                self._callbacks = tuple(c for c in self._callbacks if c is not callback)

        return cancel

    def call(self, news: News) -> None:
        """Call all of them."""
        for callback in self._callbacks:
            callback(news)

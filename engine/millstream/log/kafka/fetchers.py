"""The consumers that the readers of one log have, and how they share the memory."""

from __future__ import annotations

import threading
from weakref import WeakSet

from millstream.log.kafka.client import Settings
from millstream.log.kafka.fetcher import Fetcher
from millstream.log.watchers import OnNews

_ROOM = 128 << 20
"""Bytes of records that all together may prefetch. If any other fetches, the main one has half of
it."""
_LEAST_ROOM = 2 << 20


class Fetchers:
    """The main fetcher, and others for a reader each. None has a consumer before it is needed, or
    after that."""

    def __init__(self, config: Settings, arrived: OnNews) -> None:
        self._config = config
        self._arrived = arrived
        self._others: WeakSet[Fetcher] = WeakSet()
        self._lock = threading.Lock()
        self.main = Fetcher(config, arrived, self._main_room)

    def open(self, *, kept_seconds: float | None = None) -> Fetcher:
        """Another fetcher."""
        made = Fetcher(self._config, self._arrived, self._other_room, kept_seconds=kept_seconds)
        with self._lock:
            self._others.add(made)
        return made

    @property
    def running(self) -> int:
        """How many of them have a consumer."""
        return self.main.running + self._running_others()

    def forget(self, topic: str) -> None:
        """Stop fetching a topic that is deleted."""
        for fetcher in (self.main, *self._opened()):
            fetcher.forget(topic)

    def close(self) -> None:
        """Close all consumers and wait for it; idempotent."""
        found = (self.main, *self._opened())
        for fetcher in found:
            fetcher.close()
        for fetcher in found:
            fetcher.join()

    def _opened(self) -> tuple[Fetcher, ...]:
        with self._lock:
            return tuple(self._others)

    def _running_others(self) -> int:
        return sum(fetcher.running for fetcher in self._opened())

    def _main_room(self) -> int:
        return _ROOM // 2 if self._running_others() else _ROOM

    def _other_room(self) -> int:
        return max(_LEAST_ROOM, _ROOM // 2 // max(1, self._running_others()))

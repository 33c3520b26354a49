"""The producers that no thread uses, of a pool that has as many as were ever used at once."""

from __future__ import annotations

import threading
from typing import Generic, Protocol, TypeVar

from millstream.model.errors import UnavailableError


class Closable(Protocol):
    """A producer, of whatever kind."""

    def close(self) -> None:
        """Idempotent."""
        ...


Producer = TypeVar("Producer", bound=Closable)


class IdleProducers(Generic[Producer]):
    """Callable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Producer] = []
        self._closed = False

    def take(self) -> Producer | None:
        """One of them, None if all are in use. Raises UnavailableError after `close`."""
        with self._lock:
            if self._closed:
                raise UnavailableError("The log is closed")
            return self._idle.pop() if self._idle else None

    def give_back(self, producer: Producer) -> None:
        """Keep a producer for the next one who needs it."""
        with self._lock:
            if not self._closed:
                self._idle.append(producer)
                return
        producer.close()

    def close(self) -> None:
        """Close the producers that are not in use, and the others when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()

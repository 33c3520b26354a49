"""Detects clients that do not read their responses."""

from __future__ import annotations

from dataclasses import dataclass

BYTES_TAKEN_MIN = 16 << 10


@dataclass(slots=True)
class Progress:
    """The pending bytes of a client, and since when it has not read a good part of them."""

    _waiting: int = 0
    _since: float = 0.0

    def stalled_for(self, waiting: int, now: float) -> float:
        """For how many seconds the client has read less than 16 KiB of its pending bytes."""
        grown = waiting > self._waiting
        if not waiting or grown or waiting <= self._waiting - BYTES_TAKEN_MIN:
            self._waiting, self._since = waiting, now
        return now - self._since

"""Requests for the ends of partitions that several readers make at one time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Protocol

from millstream.log.kafka.stable_offsets import Answered, Ends
from millstream.log.log import TopicPartition as Place

_Wanted = tuple[frozenset[Place], bool]


class _Look(Protocol):
    """`Topics.look`."""

    def __call__(
        self,
        places: Collection[Place],
        answered: Callable[[dict[Place, int]], None],
        /,
        *,
        committed: bool,
    ) -> None: ...


class SharedLooks:
    """Sends one request for all readers that ask for the same partitions meanwhile.

    The response must be of a moment after each reader has asked, so a request that is on its way
    already does not count: those that ask then get the response to one more request. Readers of
    other partitions are not waited for, since theirs may be unavailable.
    """

    def __init__(self, look: _Look, answered: Callable[[Collection[Place]], None]) -> None:
        """`answered` is called after the readers have their responses."""
        self._look = look
        self._answered = answered
        self._waiting: dict[_Wanted, list[Answered]] = {}
        """What is requested now, and the readers that wait for the next request."""
        self._lock = threading.Lock()

    def ask(self, places: Collection[Place], answered: Answered, committed: bool) -> None:
        """See `AskEnds`."""
        wanted = frozenset(places), committed
        with self._lock:
            if wanted in self._waiting:
                self._waiting[wanted].append(answered)
                return
            self._waiting[wanted] = []
        self._send(wanted, [answered])

    def _send(self, wanted: _Wanted, readers: list[Answered]) -> None:
        def told(ends: Ends) -> None:
            for reader in readers:
                reader(ends)
            with self._lock:
                following = self._waiting.pop(wanted)
                if following:
                    self._waiting[wanted] = []
            if following:
                self._send(wanted, following)
            self._answered(wanted[0])

        try:
            self._look(tuple(wanted[0]), told, committed=wanted[1])
        except Exception:
            # They ask again after a response without ends.
            with self._lock:
                readers = readers + self._waiting.pop(wanted)
            for reader in readers:
                reader({})
            raise

"""Holds back newly assigned tasks until this instance has caught up with the command topic.

An instance that receives a task may have been away for any time, and the query may have been
replaced meanwhile, or be about to be. So a task is opened only after a poll of the command topic
that began after the assignment. An instance that needs a query quiesced writes a hold to the topic
and then waits until the query's group is empty; an instance that joins the group later reads the
hold before it opens a task.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Request:
    partitions: frozenset[int]
    poll: int
    """The number of the first poll that suffices."""


class CatchUpGate:
    """The gate of one instance, for use from any thread. Until `follow` is called it grants all
    tasks at once."""

    def __init__(self) -> None:
        self.poll_requested = threading.Event()
        """Set while a request waits for the next poll."""
        self._lock = threading.Lock()
        self._following = False
        self._begun = 0
        self._done = 0
        self._granted: dict[str, frozenset[int]] = {}
        self._requests: dict[str, _Request] = {}

    def follow(self) -> None:
        """Require polls from now on: a follower polls the command topic periodically."""
        self._following = True

    def begin_poll(self) -> int:
        """Note that a poll begins; returns its number."""
        with self._lock:
            self.poll_requested.clear()
            self._begun += 1
            return self._begun

    def end_poll(self, number: int) -> bool:
        """Note that all commands that were on the topic when a poll began are carried out. Returns
        whether a request waited for it."""
        with self._lock:
            self._done = max(self._done, number)
            return any(request.poll <= self._done for request in self._requests.values())

    def granted(self, query_id: str, wanted: frozenset[int]) -> frozenset[int]:
        """The partitions of a query that may be opened now. `wanted`: all that are assigned. The
        others may be granted later. A partition that is left out of `wanted` loses its grant."""
        with self._lock:
            found = self._granted.get(query_id, frozenset()) & wanted
            if found == wanted or self._may(query_id, wanted):
                found = wanted
                self._requests.pop(query_id, None)
            self._granted[query_id] = found
            if not wanted:
                del self._granted[query_id]
            return found

    def _may(self, query_id: str, wanted: frozenset[int]) -> bool:
        if not self._following:
            return True
        request = self._requests.get(query_id)
        if request is None or not wanted <= request.partitions:
            request = self._requests[query_id] = _Request(wanted, self._begun + 1)
            self.poll_requested.set()
        return request.poll <= self._done

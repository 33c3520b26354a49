"""Which tasks an instance may open by what it knows of the command topic.

Whoever is given a task may have been away for as long as he likes, and the query may have been made
anew meanwhile, or be about to be. So the task is opened only after a look at the topic that was
begun once it was his. Who wants a query to stand still says so there, and then waits until the
query's group is empty: whoever joins it later finds that word.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Asked:
    partitions: frozenset[int]
    look: int
    """The first one that will do."""


class CatchUpGate:
    """Of one instance; from any thread. Without somebody who looks all is granted at once."""

    def __init__(self) -> None:
        self.looked_for = threading.Event()
        """Whether somebody waits for the next look."""
        self._lock = threading.Lock()
        self._following = False
        self._begun = 0
        self._done = 0
        self._granted: dict[str, frozenset[int]] = {}
        self._asked: dict[str, _Asked] = {}

    def follow(self) -> None:
        """From now on somebody looks again and again."""
        self._following = True

    def look(self) -> int:
        """A look begins; its number."""
        with self._lock:
            self.looked_for.clear()
            self._begun += 1
            return self._begun

    def looked(self, number: int) -> bool:
        """All that was on the topic when a look began has been carried out; whether somebody has
        waited for that."""
        with self._lock:
            self._done = max(self._done, number)
            return any(asked.look <= self._done for asked in self._asked.values())

    def granted(self, query_id: str, wanted: frozenset[int]) -> frozenset[int]:
        """Those of a query's partitions, all that are claimed, that may be opened now; what is
        missing may be later. Whoever has lost some says so by asking without them."""
        with self._lock:
            found = self._granted.get(query_id, frozenset()) & wanted
            if found == wanted or self._may(query_id, wanted):
                found = wanted
                self._asked.pop(query_id, None)
            self._granted[query_id] = found
            if not wanted:
                del self._granted[query_id]
            return found

    def _may(self, query_id: str, wanted: frozenset[int]) -> bool:
        if not self._following:
            return True
        asked = self._asked.get(query_id)
        if asked is None or not wanted <= asked.partitions:
            asked = self._asked[query_id] = _Asked(wanted, self._begun + 1)
            self.looked_for.set()
        return asked.look <= self._done

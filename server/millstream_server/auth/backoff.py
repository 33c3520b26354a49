"""Delays clients that repeatedly fail to authenticate."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

FREE = 5
"""Failures of one user from one address before there is a wait."""
FREE_OF_ADDRESS = 20
"""Failures from one address, for any users, before there is a wait."""
WAIT_MAX = 300.0
FORGET_AFTER = 900.0
ENTRIES_MAX = 10_000

Key = tuple[str, str]


class Backoff:
    """Failures by (user, address) and by address. Bounded: the oldest are evicted first.

    A user is never locked out from other addresses, because then anyone could lock out any user.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[Key, tuple[int, float]] = OrderedDict()

    def wait(self, user: str, address: str) -> float:
        """Seconds until the next attempt is allowed; 0 for now."""
        now = self._clock()
        with self._lock:
            return max(self._wait(key, free, now) for key, free in _keys(user, address))

    def failed(self, user: str, address: str) -> None:
        """Note a failed attempt."""
        now = self._clock()
        with self._lock:
            for key, _ in _keys(user, address):
                count, since = self._failures.pop(key, (0, now))
                count = 0 if now - since > FORGET_AFTER else count
                self._failures[key] = (count + 1, now)
            while len(self._failures) > ENTRIES_MAX:
                self._failures.popitem(last=False)

    def succeeded(self, user: str, address: str) -> None:
        """Note a successful attempt; the address's attempts with other users still count."""
        with self._lock:
            self._failures.pop((user[:128], address), None)

    def _wait(self, key: Key, free: int, now: float) -> float:
        count, since = self._failures.get(key, (0, now))
        if count < free or now - since > FORGET_AFTER:
            return 0.0
        due: float = since + min(WAIT_MAX, 2.0 ** min(count - free, 16))
        return max(0.0, due - now)


def _keys(user: str, address: str) -> tuple[tuple[Key, int], tuple[Key, int]]:
    return ((user[:128], address), FREE), (("", address), FREE_OF_ADDRESS)

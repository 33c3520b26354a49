"""Which lease topics a member should be subscribed to, and when to change that.

Each change of a subscription makes all members of the group join again. So changes that come
together are made together: a script that creates queries, or a process that starts, subscribes a
few times.
"""

from __future__ import annotations

_QUIET_SECONDS = 0.2
_LONGEST_SECONDS = 1.0
_FIRST_TIMES = 4
"""How much longer the first subscription of a static member waits: what is missing in it is
assigned to others for a moment."""


class LeaseTopics:
    """The topics of one member; for one thread at a time. Times are in seconds."""

    def __init__(self, keep_seconds: float = 0.0) -> None:
        """`keep_seconds`: how long a topic that was removed stays."""
        self.subscribed: frozenset[str] = frozenset()
        self.hurried = False
        """Whether the next change is made at once."""
        self._keep_seconds = keep_seconds
        self._wanted: dict[str, float | None] = {}
        """Until when each topic is wanted; None: no end is known."""
        self._patience = _FIRST_TIMES if keep_seconds else 1
        self._first = self._last = 0.0
        """When the first and the last change was asked for that is not made yet."""

    def add(self, topic: str, now: float) -> None:
        """Want a topic."""
        self._wanted[topic] = None
        self._changed(now)

    def remove(self, topic: str, now: float) -> None:
        """Want a topic no longer."""
        if topic in self._wanted:
            self._wanted[topic] = now + self._keep_seconds
            self._changed(now)

    def hurry(self, topic: str) -> None:
        """Do not keep a topic that was removed."""
        if self._wanted.get(topic) is not None:
            del self._wanted[topic]
        self.hurried = self.hurried or topic in self.subscribed

    def due(self, now: float) -> frozenset[str] | None:
        """The topics to subscribe to instead, if it is time to change the subscription."""
        wanted = frozenset(
            topic for topic, until in self._wanted.items() if until is None or until > now
        )
        if wanted == self.subscribed:
            self._first, self.hurried = 0.0, False
            return None
        quiet = now - self._last >= _QUIET_SECONDS * self._patience
        long = now - self._first >= _LONGEST_SECONDS * self._patience
        if not (self.hurried or quiet or long):
            return None
        self._wanted = {topic: self._wanted[topic] for topic in wanted}
        self._patience, self._first, self.hurried = 1, 0.0, False
        return wanted

    def _changed(self, now: float) -> None:
        self._first = self._first or now
        self._last = now

"""The instances of a service, as each hears of the others on a topic of theirs.

Whoever is silent for the session timeout is dead: there is nothing of it between what was last
heard and a word of our own that came back, said so much later. So a topic that stands still, or a
listener who does, kills nobody. What the dead left open on the log would hold its readers back: the
living settle it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from millstream.log.log import AS_THE_CLUSTER, Appended, Log, Reader, Topic
from millstream.log.reopening import ReopeningWriter
from millstream.model.batch import raw_batch
from millstream.model.errors import ConflictError, CorruptionError, MillstreamError
from millstream.service.clock import now_ms
from millstream.service.cluster.metadata import (
    InstanceMetadata,
    PeerView,
    decoded,
    encoded,
    rendezvous,
    sighted,
)

PUBLISH_MS = 1_000
SESSION_MS = 10_000
SUPERSEDED_MS = 3 * PUBLISH_MS
"""An instance that has started anew is silent under its former incarnation for so long at most."""
READ_MAX = 10_000
_CONFIG = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}


def topic_name(prefix: str) -> str:
    """The topic on which the instances of a service present themselves."""
    return f"{prefix}instances"


def identity_of(incarnation: str) -> str:
    """The writer by which an incarnation presents itself."""
    return f"peer.{incarnation}"


class PeerMembership:
    """This instance among its peers. Not for several threads; times are ms of one steady clock.

    All methods that talk to the log may wait for it and raise UnavailableError: try again then.
    """

    def __init__(
        self,
        log: Log[pa.Table],
        prefix: str,
        instance: str,
        incarnation: str,
        *,
        session_ms: int = SESSION_MS,
    ) -> None:
        """`instance`: a name that is kept through restarts; `incarnation`: unique for each."""
        self._log = log
        self._topic = topic_name(prefix)
        self.instance = instance
        self.incarnation = incarnation
        self._session_ms = session_ms
        if log.topic(self._topic) is None:
            with suppress(ConflictError):
                log.create_topic(Topic(self._topic, 1, AS_THE_CLUSTER, _CONFIG))
        self._reader: Reader[pa.Table] = log.reader()
        self._writer = ReopeningWriter(lambda: log.writer(identity_of(incarnation)), own=True)
        self._offset = log.start_offset(self._topic, 0)
        self._sightings: dict[str, PeerView] = {}
        self._first: int | None = None
        """The offset of our first word."""
        self._settled: dict[str, set[str]] = {}
        """The writers of the dead that have been fenced, by incarnation."""
        self._published: tuple[InstanceMetadata, int] | None = None
        self._echo = 0
        """When the last word of ours was said that has come back."""
        self._waiting_since: int | None = None
        """Since when a word of ours is awaited."""

    def publish(self, presence: InstanceMetadata, now: int) -> bool:
        """Present this instance if that is due: something has changed, or a second is over."""
        if self._published is not None:
            before, at = self._published
            if presence == before and now - at < PUBLISH_MS:
                return False
        own = identity_of(self.incarnation)
        said = replace(
            presence,
            instance=self.instance,
            incarnation=self.incarnation,
            writers=tuple(sorted({*presence.writers, own})),
            at=now,
        )
        if self._waiting_since is None:
            self._waiting_since = now
        self._append(self.incarnation, encoded(said))
        self._published = (presence, now)
        return True

    def refresh(self, now: int) -> None:
        """Hear what the others have said."""
        try:
            for row in self._unread():
                self._hear(row, now)
        except CorruptionError:
            # The broker has removed what we have not read; what is left says all that is valid.
            self._offset = self._log.start_offset(self._topic, 0)

    def live(self) -> tuple[PeerView, ...]:
        """The others, without the dead."""
        dead = {presence.incarnation for presence in self.dead()}
        return tuple(s for name, s in self._others() if name not in dead)

    def superseded(self) -> bool:
        """Whether an instance of our name that lives has begun to speak after us."""
        first = self._first
        return first is not None and any(
            s.presence.instance == self.instance and s.offset > first for s in self.live()
        )

    def instances(self) -> frozenset[str]:
        """The names of all instances that live, this one included."""
        return frozenset({self.instance, *(s.presence.instance for s in self.live())})

    def dead(self) -> tuple[InstanceMetadata, ...]:
        """The others that have been silent for too long, and are to be settled."""
        return tuple(sighting.presence for sighting in self.silent())

    def silent(self) -> tuple[PeerView, ...]:
        """The last words of the dead."""
        newest = {self.instance: self.incarnation}
        for name, sighting in sorted(self._others(), key=lambda item: item[1].offset):
            if sighting.presence.instance != self.instance:
                newest[sighting.presence.instance] = name
        found = []
        for name, sighting in self._others():
            superseded = newest[sighting.presence.instance] != name
            allowed = min(SUPERSEDED_MS, self._session_ms) if superseded else self._session_ms
            if self._echo - sighting.at >= allowed:
                found.append(sighting)
        return tuple(found)

    def stuck(self, now: int) -> bool:
        """Whether nothing comes through: a word of ours has not come back for long."""
        return self._waiting_since is not None and now - self._waiting_since >= self._session_ms

    def settle(self, now: int) -> bool:
        """One step of settling what the dead left open, where that is up to this instance: of the
        living one does it. Whether there may be more to do; a step takes a second at most, as a
        rule, and others must hear of this instance in between."""
        if self.stuck(now):
            self._unblock(now)
            return False
        living = {self.incarnation, *(s.presence.incarnation for s in self.live())}
        for presence in self.dead():
            if rendezvous(presence.incarnation, living)[0] == self.incarnation:
                self._settle(presence)
                return True
        return False

    def _settle(self, presence: InstanceMetadata) -> None:
        """Opening a writer fences the one who had it, and aborts what it left open."""
        done = self._settled.setdefault(presence.incarnation, set())
        left = [identity for identity in presence.writers if identity not in done]
        if left:
            self._log.writer(left[0]).close()
            done.add(left[0])
            return
        self._append(presence.incarnation, None)
        self._forget(presence.incarnation)
        logging.getLogger("millstream").warning(
            f"settled what instance {presence.instance} ({presence.incarnation}) left open"
        )

    def _forget(self, incarnation: str) -> None:
        self._sightings.pop(incarnation, None)
        self._settled.pop(incarnation, None)

    def close(self) -> None:
        """Take leave of the others; idempotent."""
        if self._published is not None:
            with suppress(MillstreamError):
                self._append(self.incarnation, None)
            self._published = None
        self._writer.close()
        self._reader.close()

    def _others(self) -> Iterator[tuple[str, PeerView]]:
        return ((n, s) for n, s in self._sightings.items() if n != self.incarnation)

    def _unread(self) -> Iterator[dict[str, Any]]:
        self._reader.begin([(self._topic, 0)])
        while True:
            fetched = self._reader.read(self._topic, 0, self._offset, READ_MAX)
            yield from fetched.batch.select(["offset", "key", "value"]).to_pylist()
            self._offset = fetched.next_offset
            if fetched.end or not fetched.count:
                return

    def _hear(self, row: dict[str, Any], now: int) -> None:
        incarnation = (row["key"] or b"").decode(errors="replace")
        presence = None if row["value"] is None else decoded(row["value"])
        if incarnation == self.incarnation:
            self._first = self._first or row["offset"]
            self._hear_own(presence)
        elif row["value"] is None:
            self._forget(incarnation)
        elif presence is not None and presence.incarnation == incarnation:
            self._settled.pop(incarnation, None)
            before = self._sightings.get(incarnation)
            self._sightings[incarnation] = sighted(before, presence, now, row["offset"])

    def _hear_own(self, presence: InstanceMetadata | None) -> None:
        if self._published is None or presence is None:
            # Somebody took us for dead: it is said again that we are not.
            self._published = None
            return
        self._echo = presence.at
        self._waiting_since = None if self._echo >= self._published[1] else self._echo

    def _append(self, key: str, value: bytes | None) -> None:
        batch = raw_batch([(key.encode(), value, now_ms())])
        self._writer.append([Appended(self._topic, 0, batch, 1, len(value or b""))])

    def _unblock(self, now: int) -> None:
        """Abort what anybody has open on the topic itself: nothing behind it can be read. The
        living open their writers again."""
        for incarnation, _ in list(self._others()):
            self._log.writer(identity_of(incarnation)).close()
        self._waiting_since = now

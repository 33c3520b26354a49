"""Membership of a service: instances publish heartbeats on one topic, and read their peers' ones.

A peer is dead if this instance has read back a heartbeat of its own that was published a session
timeout after it had read the peer's last heartbeat. So a stalled topic, or a suspended reader,
marks no instance as dead. Open transactions of a dead instance would block the readers of the log:
a live instance aborts them (docs/adr/0010-rows-between-instances.md). Heartbeats themselves are no
transactions, so that nothing holds up their readers (docs/adr/0052-plain-heartbeats.md).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa

from millstream.cluster.metadata import (
    InstanceMetadata,
    PeerView,
    decode_metadata,
    encode_metadata,
    rendezvous,
    updated_view,
)
from millstream.log.log import AS_THE_CLUSTER, Appended, Log, Reader, Topic
from millstream.model.batch import raw_batch
from millstream.model.clock import now_ms
from millstream.model.errors import ConflictError, CorruptionError, MillstreamError

PUBLISH_MS = 1_000
SESSION_MS = 10_000
SUPERSEDED_MS = 3 * PUBLISH_MS
"""The session timeout of an incarnation whose instance has been restarted."""
READ_MAX = 10_000
_CONFIG = {"cleanup.policy": "compact", "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.1"}


def topic_name(prefix: str) -> str:
    """The topic of the heartbeats of a service's instances."""
    return f"{prefix}instances"


class PeerMembership:
    """The membership of this instance, and its view of its peers. Not thread-safe.

    Times are ms of one monotonic clock. All methods that use the log may block and raise
    UnavailableError; the caller retries then.
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
        """`instance`: a name that survives restarts; `incarnation`: a unique id of this start."""
        self._log = log
        self._topic = topic_name(prefix)
        self.instance = instance
        self.incarnation = incarnation
        self._session_ms = session_ms
        if log.topic(self._topic) is None:
            with suppress(ConflictError):
                log.create_topic(Topic(self._topic, 1, AS_THE_CLUSTER, _CONFIG))
        self._reader: Reader[pa.Table] = log.reader()
        self._offset = log.start_offset(self._topic, 0)
        self._views: dict[str, PeerView] = {}
        self._first_offset: int | None = None
        """The offset of the first record of this incarnation."""
        self._fenced: dict[str, set[str]] = {}
        """The writers of dead incarnations that have been fenced already, by incarnation."""
        self._published: tuple[InstanceMetadata, int] | None = None
        self._sent = b""
        """The last heartbeat as it is on the topic."""
        self._acknowledged_at = 0
        """The publication time of this instance's newest record that was read back."""

    def publish(self, metadata: InstanceMetadata, now: int) -> bool:
        """Publish a heartbeat if it is due: the metadata has changed, or PUBLISH_MS have passed.
        Returns whether it was."""
        if self._published is not None:
            before, at = self._published
            if metadata == before and now - at < PUBLISH_MS:
                return False
        published = replace(
            metadata,
            instance=self.instance,
            incarnation=self.incarnation,
            writers=tuple(sorted(metadata.writers)),
            published_at=now,
        )
        value = encode_metadata(published)
        self._append(self.incarnation, value)
        self._published, self._sent = (metadata, now), value
        return True

    def refresh(self, now: int) -> None:
        """Read the new heartbeats of all instances."""
        try:
            for row in self._unread():
                self._apply(row, now)
        except CorruptionError:
            # The broker has deleted unread records. The topic is compacted: the retained records
            # are all that is valid.
            self._offset = self._log.start_offset(self._topic, 0)

    def live(self) -> tuple[PeerView, ...]:
        """The live peers."""
        dead = {metadata.incarnation for metadata in self.dead()}
        return tuple(view for name, view in self._peer_views() if name not in dead)

    def superseded(self) -> bool:
        """Whether a live incarnation of the same instance name has started after this one."""
        first = self._first_offset
        return first is not None and any(
            view.metadata.instance == self.instance and view.first_offset > first
            for view in self.live()
        )

    def instances(self) -> frozenset[str]:
        """The names of all live instances, including this one."""
        return frozenset({self.instance, *(view.metadata.instance for view in self.live())})

    def dead(self) -> tuple[InstanceMetadata, ...]:
        """The metadata of the dead peers, whose writers are to be fenced."""
        return tuple(view.metadata for view in self.expired())

    def expired(self) -> tuple[PeerView, ...]:
        """The views of the dead peers: those whose session has expired."""
        newest = {self.instance: self.incarnation}
        for name, view in sorted(self._peer_views(), key=lambda item: item[1].first_offset):
            if view.metadata.instance != self.instance:
                newest[view.metadata.instance] = name
        expired = []
        for name, view in self._peer_views():
            superseded = newest[view.metadata.instance] != name
            timeout = min(SUPERSEDED_MS, self._session_ms) if superseded else self._session_ms
            if self._acknowledged_at - view.seen_at >= timeout:
                expired.append(view)
        return tuple(expired)

    def fence_dead(self) -> bool:
        """Take one step to abort the open transactions of dead peers: fence one writer, or remove
        one peer from the topic. Rendezvous hashing assigns each dead peer to one live instance.

        Returns whether more steps may follow. A step usually takes a second at most; the caller
        publishes heartbeats in between.
        """
        live = {self.incarnation, *(view.metadata.incarnation for view in self.live())}
        for metadata in self.dead():
            if rendezvous(metadata.incarnation, live)[0] == self.incarnation:
                self._fence(metadata)
                return True
        return False

    def _fence(self, metadata: InstanceMetadata) -> None:
        """Opening a writer fences the former process and aborts its open transaction."""
        done = self._fenced.setdefault(metadata.incarnation, set())
        left = [identity for identity in metadata.writers if identity not in done]
        if left:
            self._log.writer(left[0]).close()
            done.add(left[0])
            return
        self._append(metadata.incarnation, None)
        self._forget(metadata.incarnation)
        logging.getLogger("millstream").warning(
            f"fenced the writers of dead instance {metadata.instance} ({metadata.incarnation})"
        )

    def _forget(self, incarnation: str) -> None:
        self._views.pop(incarnation, None)
        self._fenced.pop(incarnation, None)

    def close(self) -> None:
        """Remove this instance from the topic; idempotent."""
        if self._published is not None:
            with suppress(MillstreamError):
                self._append(self.incarnation, None)
            self._published = None
        self._reader.close()

    def _peer_views(self) -> Iterator[tuple[str, PeerView]]:
        return (item for item in self._views.items() if item[0] != self.incarnation)

    def _unread(self) -> Iterator[dict[str, Any]]:
        self._reader.begin([(self._topic, 0)])
        while True:
            fetched = self._reader.read(self._topic, 0, self._offset, READ_MAX)
            yield from fetched.batch.select(["offset", "key", "value"]).to_pylist()
            self._offset = fetched.next_offset
            if fetched.end or not fetched.count:
                return

    def _apply(self, row: dict[str, Any], now: int) -> None:
        incarnation = (row["key"] or b"").decode(errors="replace")
        if incarnation == self.incarnation:
            if self._first_offset is None:
                self._first_offset = row["offset"]
            self._apply_own(row["value"])
        elif row["value"] is None:
            self._forget(incarnation)
        elif (metadata := decode_metadata(row["value"])) and metadata.incarnation == incarnation:
            self._fenced.pop(incarnation, None)
            before = self._views.get(incarnation)
            if before is not None and metadata.published_at < before.metadata.published_at:
                return
            self._views[incarnation] = updated_view(before, metadata, now, row["offset"])

    def _apply_own(self, value: bytes | None) -> None:
        time = self._time_of(value)
        if self._published is None or time is None:
            # A peer has marked this instance as dead: the next heartbeat is due at once.
            self._published = None
            return
        # One that was given up may have been written late.
        self._acknowledged_at = max(self._acknowledged_at, time)

    def _time_of(self, value: bytes | None) -> int | None:
        """When this instance has published a heartbeat; None if it is none. With many queries it
        takes long to decode, and nearly always it is the last one."""
        if self._published is not None and value == self._sent:
            return self._published[1]
        metadata = None if value is None else decode_metadata(value)
        return None if metadata is None else metadata.published_at

    def _append(self, key: str, value: bytes | None) -> None:
        batch = raw_batch([(key.encode(), value, now_ms())])
        self._log.send([Appended(self._topic, 0, batch, 1, len(value or b""))])

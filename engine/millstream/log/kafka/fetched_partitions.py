"""Which partitions one consumer fetches, for which readers, and which of them it has to pause.

A consumer that is assigned a partition again at another offset may still return records of the old
position (librdkafka 2.16). So each partition is assigned once in the lifetime of a consumer. One
that no reader needs any more stays assigned and is paused: it can go on where it stopped. Any other
way back needs a new consumer (`renew`), which continues all partitions where the old one stopped.

Not thread-safe: the fetcher has a lock. Nothing here calls the client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import KafkaError

from millstream.log.kafka.client import translated
from millstream.log.kafka.intake import News
from millstream.log.kafka.partition_buffer import Cursor, PartitionBuffer
from millstream.log.log import TopicPartition as Place

SLOW_SECONDS = 0.1
"""How long a partition may be full for the sake of slow readers while another one waits for more of
it. Readers that take turns are not slow: each falls behind by one read."""
SKIPPED_MAX = 10_000
"""How many offsets are fetched in vain to go on with a paused partition; beyond, a new consumer is
cheaper."""
_PATIENCE_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Changes:
    """What the consumer has to be told: partitions to give up, and those to read from an offset."""

    gone: frozenset[Place]
    new: dict[Place, int]


@dataclass(frozen=True, slots=True)
class Pausing:
    """Partitions to pause and to resume. `blocked`: none of those that are read needs more."""

    pause: frozenset[Place] = frozenset()
    resume: frozenset[Place] = frozenset()
    blocked: bool = False


class FetchedPartitions:
    """The buffers of one consumer."""

    def __init__(self) -> None:
        self.buffers: dict[Place, PartitionBuffer] = {}
        self.renew = False
        """Whether the consumer must be replaced before anything it returns can be used."""
        self.renewal_wanted = False
        """Whether readers would come to this consumer if it were a new one."""
        self._assigned: set[Place] = set()
        self._retired: set[Place] = set()
        """Partitions that the current consumer was assigned and no longer is."""
        self._paused: set[Place] = set()
        self.full = False
        """Whether a partition has filled its share."""
        self._unchecked = True
        """Whether anything has changed since `pausing` looked at all partitions."""

    # ---- readers -------------------------------------------------------------------------------

    @property
    def reading(self) -> bool:
        """Whether any reader needs a partition."""
        return any(buffer.cursors for buffer in self.buffers.values())

    def cursors(self) -> Iterator[Cursor]:
        """All of them."""
        return (cursor for buffer in self.buffers.values() for cursor in buffer.cursors)

    def enter(self, place: Place, offset: int, owner: object) -> Cursor | None:
        """A cursor at an offset, unless it would take another position of the consumer."""
        if self._assigned and not self.reading:
            # A new consumer harms nobody, and one that has paused all is slow to resume.
            self.renew = True
        buffer = self.buffers.get(place)
        if buffer is None or (self.renew and not buffer.cursors):
            if place in self._retired and not self.renew:
                return None
            buffer = self.buffers[place] = PartitionBuffer(offset)
        elif not buffer.start <= offset <= buffer.next:
            return None
        self._unchecked = True
        return buffer.open(place, offset, owner)

    def replace(self, place: Place, offset: int, owner: object) -> Cursor:
        """A cursor at an offset whatever was read before: other cursors of the partition are
        detached, and the consumer is renewed if need be."""
        cursor = self.enter(place, offset, owner)
        if cursor is None:
            self._detach(place)
            self.renew |= place in self._retired
            buffer = self.buffers[place] = PartitionBuffer(offset)
            cursor = buffer.open(place, offset, owner)
        return cursor

    def reserve(self, place: Place, offset: int, reached: int, owner: object) -> Cursor | None:
        """A cursor for a reader that is still at `offset` elsewhere, where records up to `reached`
        were fetched, if it would find the rest here. The reader calls `claim` until it is there."""
        buffer = self.buffers.get(place)
        if buffer is None:
            self.renewal_wanted |= place in self._retired
            return None
        if buffer.start > reached:
            return None
        if not buffer.cursors and offset - buffer.next > SKIPPED_MAX:
            self.renewal_wanted = True
            return None
        self._unchecked = True
        cursor = buffer.open(place, max(offset, buffer.start), owner)
        cursor.reserved = True
        return cursor

    def claim(self, cursor: Cursor, offset: int, now: float) -> bool:
        """Whether a reader that has come to `offset` can go on with its reserved cursor."""
        if not cursor.attached:
            return False
        cursor.reserved = not cursor.move(offset)
        if cursor.reserved and offset > cursor.next:
            # Records are known that this consumer has not returned yet.
            cursor.awaited = cursor.awaited or now
            cursor.pass_to(offset)
            cursor.buffer.trim()
        self._unchecked = True
        return not cursor.reserved

    def move(self, cursor: Cursor, offset: int) -> bool:
        """See `Cursor.move`."""
        self._unchecked |= offset != cursor.offset
        return cursor.move(offset)

    def leave(self, cursor: Cursor) -> None:
        """Release a cursor; idempotent."""
        cursor.buffer.close(cursor)
        self._unchecked = True

    def forget(self, topic: str) -> None:
        """Give up all partitions of a topic that is deleted."""
        for place in [place for place in self.buffers if place[0] == topic]:
            self._detach(place)

    def expire(self, before: float) -> None:
        """Release cursors that were not used since a time."""
        for cursor in [c for c in self.cursors() if c.awaited is None and c.used < before]:
            self.leave(cursor)

    def _remove(self, place: Place) -> PartitionBuffer | None:
        self._unchecked = True
        if place in self._assigned:
            self._retired.add(place)
        return self.buffers.pop(place, None)

    def _detach(self, place: Place) -> None:
        buffer = self._remove(place)
        for cursor in buffer.cursors if buffer else ():
            cursor.attached = False

    # ---- the consumer --------------------------------------------------------------------------

    def opened(self) -> None:
        """There is a new consumer, which is assigned nothing yet."""
        self.buffers = {place: buffer for place, buffer in self.buffers.items() if buffer.cursors}
        self._assigned, self._retired, self._paused = set(), set(), set()
        self.renew = self.renewal_wanted = False
        self._unchecked = True

    def changes(self) -> Changes:
        """What the consumer is to be told now; taken for done."""
        gone = frozenset(self._assigned - self.buffers.keys())
        new = {
            place: buffer.next
            for place, buffer in self.buffers.items()
            if place not in self._assigned
        }
        self._assigned = (self._assigned - gone) | new.keys()
        self._paused -= gone
        return Changes(gone, new)

    def take(self, place: Place, piece: pa.Table | News) -> None:
        """Add what the consumer returned of a partition."""
        buffer = self.buffers.get(place)
        if buffer is None or place not in self._assigned:
            return
        self._unchecked = True
        if isinstance(piece, pa.Table):
            buffer.add(piece)
        elif piece.error.code() == KafkaError._PARTITION_EOF:
            buffer.reach(piece.offset)
        else:
            # Readers get what came before it, and then the error, each of them once.
            attempt = f"read topic '{place[0]}', partition {place[1]}"
            buffer.fault = translated(piece.error, attempt)
            for cursor in buffer.cursors:
                cursor.attached = not cursor.reserved
            self._remove(place)

    def share(self, room: int) -> int:
        """The share of `room` of each partition that has records or may have some."""
        busy = sum(
            bool(buffer.cursors) and (buffer.end is None or buffer.count > 0)
            for buffer in self.buffers.values()
        )
        return room // max(1, busy)

    def pausing(self, room: Callable[[], int], now: float) -> Pausing:
        """Pause partitions that have filled their share, until half of it is used, and those that
        nobody reads. Those that are read are never all paused: the client takes up to a second to
        resume after that."""
        if not self._unchecked:
            return Pausing()
        share = self.share(room())
        read, full, low = set(), set(), set()
        for place in self._assigned & self.buffers.keys():
            buffer = self.buffers[place]
            if not buffer.cursors:
                continue
            read.add(place)
            limit = share // 2 if place in self._paused else share
            if buffer.bytes >= limit:
                self._detach_slow(buffer, share // 2, now)
            if buffer.bytes >= limit:
                full.add(place)
            else:
                low.add(place)
        self.full = self._unchecked = bool(full)
        if full and full == read:
            return Pausing(blocked=True)
        idle = self._assigned - read
        pause, resume = (full | idle) - self._paused, low & self._paused
        self._paused = (self._paused | pause) - resume
        for place in pause:
            # It may grow meanwhile; the client reports the end again after it has resumed.
            self.buffers[place].end = None
        return Pausing(frozenset(pause), frozenset(resume))

    def _detach_slow(self, buffer: PartitionBuffer, least: int, now: float) -> None:
        """Detach the cursors that are furthest behind if another one waits for more, until there
        are less than `least` bytes: their readers go on elsewhere. One that is only reserved is
        detached at once."""
        here = [cursor.rows for cursor in buffer.cursors if not cursor.reserved]
        if max(here, default=-1) < buffer.rows:
            buffer.starved_since = None
            return
        if buffer.starved_since is None:
            buffer.starved_since = now
        slow = now >= buffer.starved_since + SLOW_SECONDS
        for cursor in sorted(buffer.cursors, key=lambda cursor: cursor.rows):
            if buffer.bytes < least or not (slow or cursor.reserved):
                return
            buffer.close(cursor)

    def overdue(self, now: float, since: float, patience: float, first: float) -> bool:
        """Whether records that a reader waits for are long overdue and another consumer should be
        tried: after `patience` seconds, `first` more where the client has not reported an end. The
        last consumer was tried at `since`. The time doubles while that brings nothing."""
        for place, buffer in self.buffers.items():
            waits = [c.awaited for c in buffer.cursors if c.awaited is not None and not c.count]
            if not waits or place in self._paused:
                continue
            own = max(patience, buffer.patience)
            wait = own if buffer.end is not None else own + first
            if now - max(min(waits), since) >= wait:
                buffer.patience = min(2 * own, _PATIENCE_MAX)
                return True
        return False

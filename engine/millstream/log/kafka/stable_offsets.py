"""Determines what may be read together of partitions that other processes write, so that no record
is read before an earlier one of another partition.

The client reports that a partition has nothing more, but this may be older than the records that
arrived from another partition meanwhile. Therefore a *look* notes the fetched position of each
partition and then requests the ends of all. No record behind these ends can precede a record before
the noted positions. The requested ends are those of written records, committed or not: a
transaction that is readable on one partition, but still being completed on another, has been
written on both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from millstream.log.kafka.partition_buffer import Cursor
from millstream.log.log import TopicPartition as Place

OPEN_SECONDS = 1.0
"""How long to wait for records of transactions that are open at the end of a partition. The owner
of one may leave it open for minutes; completing it takes some milliseconds. After this time a
request checks whether a transaction is the cause: on a busy machine the records may just be late.
"""
_KNOWN_SECONDS = 1.0
"""How long a detected open transaction counts as the cause."""
_AGAIN_SECONDS = 0.1
"""How long to wait for another look after one without responses for all partitions."""

Ends = Mapping[Place, int]
Answered = Callable[[Ends], None]
AskEnds = Callable[[tuple[Place, ...], Answered, bool], None]
"""Requests the ends of what is written, or of what is committed alone; the response comes later
from another thread and lacks partitions that were unavailable."""


@dataclass(frozen=True, slots=True)
class _Seen:
    noted: Ends
    """The fetched position of each partition before the ends were requested."""
    ends: Ends


class StableOffsets:
    """Used by one reader under its lock, except for the responses to its looks."""

    def __init__(self, look: AskEnds, shared: Callable[[Place], bool]) -> None:
        """`shared` says whether other processes write to a partition too."""
        self._look = look
        self._shared = shared
        self._seen = _Seen({}, {})
        self._answer: _Seen | None = None
        self._looking = False
        self._look_after = 0.0
        self._doubted: set[Place] = set()
        """Partitions with more written records that have not arrived for long."""
        self._committed: tuple[float, Ends] = (0.0, {})
        """The committed ends of these, and when they were requested."""
        self._doubting = False
        self._bounded = False
        """Whether records may be read up to the noted positions only, because a partition is at its
        end."""
        self._passed = False
        """Whether records behind those positions were read since `begin`."""

    def begin(self, cursors: Mapping[Place, Cursor]) -> None:
        """Begin a read of partitions in one common order."""
        answer, self._answer = self._answer, None
        if answer is not None:
            self._seen = answer
        self._passed = False
        self._bounded = any(
            cursor.end is not None
            for topic_partition, cursor in cursors.items()
            if self._shared(topic_partition)
        )

    def bound(self, topic_partition: Place, cursor: Cursor) -> int | None:
        """The offset before which records may be read now, None for all."""
        if not self._shared(topic_partition):
            return None
        noted = self._seen.noted.get(topic_partition, cursor.offset)
        if self._bounded:
            return noted
        self._passed |= cursor.next > noted
        return None

    def at_end(self, topic_partition: Place, cursor: Cursor) -> bool:
        """Whether an exhausted partition counts as ended for all the others."""
        if not self._shared(topic_partition):
            return True
        end = self._seen.ends.get(topic_partition)
        if end is None or self._passed:
            return False
        if cursor.next < end and not (
            cursor.stuck(OPEN_SECONDS) and self._open(topic_partition, cursor)
        ):
            return False
        self._bounded = True
        return True

    def _open(self, topic_partition: Place, cursor: Cursor) -> bool:
        """Whether an open transaction precedes the records written behind it."""
        asked, ends = self._committed
        known = topic_partition in ends and time.monotonic() < asked + _KNOWN_SECONDS
        if not known:
            self._doubted.add(topic_partition)
        return known and cursor.next >= ends[topic_partition]

    def ask(self, cursors: Mapping[Place, Cursor]) -> None:
        """Look, for the next `begin`, if the last result cannot be sufficient any more."""
        self._resolve()
        noted = {
            topic_partition: cursor.next
            for topic_partition, cursor in cursors.items()
            if self._shared(topic_partition)
        }
        if self._looking or self._answer is not None or not self._stale(noted):
            return
        if time.monotonic() < self._look_after:
            return
        self._looking = True

        def answered(ends: Ends) -> None:
            if len(ends) < len(noted):
                self._look_after = time.monotonic() + _AGAIN_SECONDS
            self._answer, self._looking = _Seen(noted, ends), False

        self._look(tuple(noted), answered, False)

    def _resolve(self) -> None:
        if not self._doubted or self._doubting:
            return
        topic_partitions, asked = tuple(self._doubted), time.monotonic()
        self._doubted.clear()
        self._doubting = True

        def answered(ends: Ends) -> None:
            self._committed, self._doubting = (asked, ends), False

        self._look(topic_partitions, answered, True)

    def _stale(self, noted: Ends) -> bool:
        seen = self._seen
        missing = noted.keys() - seen.ends.keys()
        return bool(missing) or any(end > seen.noted.get(at, -1) for at, end in noted.items())

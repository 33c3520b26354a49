"""What may be read together of partitions that other processes write, so that no record is taken
before an earlier one of another partition.

That a partition has nothing more is known from the client, and may be older than the records that
came of another one meanwhile. So one *looks*: notes how far each partition has come, and asks the
brokers for the ends of all. Up to what was noted, nothing can precede what lies behind these ends.
The ends asked for are those of what is written, committed or not: a transaction that is readable
on one partition, but still being completed on another, has been written on both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from millstream.log.kafka.partition_buffer import PartitionBuffer
from millstream.log.log import TopicPartition as Place

OPEN_SECONDS = 1.0
"""How long records of transactions that are open at the end of a partition are waited for. The
owner of one may leave it open for minutes; completing it takes some milliseconds. Whether that is
why they do not come is asked then: on a busy machine it may be that they are on their way."""
_KNOWN_SECONDS = 1.0
"""How long it counts that a transaction is in the way."""
_AGAIN_SECONDS = 0.1
"""How long after a look that was not answered for all partitions another one is taken."""

Ends = Mapping[Place, int]
Answered = Callable[[Ends], None]
AskEnds = Callable[[tuple[Place, ...], Answered, bool], None]
"""Asks for the ends of what is written, or of what is committed alone; the answer comes later and
from another thread, and lacks the partitions that could not be asked."""


@dataclass(frozen=True, slots=True)
class _Seen:
    noted: Ends
    """How far each partition had come before the ends were asked for."""
    ends: Ends


class StableOffsets:
    """Used by one reader under its lock, but for the answers to its looks."""

    def __init__(self, look: AskEnds, shared: Callable[[Place], bool]) -> None:
        """`shared` says whether other processes write to a partition too."""
        self._look = look
        self._shared = shared
        self._seen = _Seen({}, {})
        self._answer: _Seen | None = None
        self._looking = False
        self._look_after = 0.0
        self._doubted: set[Place] = set()
        """Partitions of which more is written, and has not come for long."""
        self._committed: tuple[float, Ends] = (0.0, {})
        """Where what is committed of these ends, and when that was asked for."""
        self._doubting = False
        self._bounded = False
        """Whether records may be read up to what was noted only: a partition is at its end."""
        self._passed = False
        """Whether records behind that were read since `begin`."""

    def begin(self, feeds: Mapping[Place, PartitionBuffer]) -> None:
        """What is read from here on is taken together."""
        answer, self._answer = self._answer, None
        if answer is not None:
            self._seen = answer
        self._passed = False
        self._bounded = any(
            feed.end is not None
            for topic_partition, feed in feeds.items()
            if self._shared(topic_partition)
        )

    def bound(self, topic_partition: Place, feed: PartitionBuffer) -> int | None:
        """The offset before which records may be read now, None for all."""
        if not self._shared(topic_partition):
            return None
        noted = self._seen.noted.get(topic_partition, feed.start)
        if self._bounded:
            return noted
        self._passed |= feed.next > noted
        return None

    def at_end(self, topic_partition: Place, feed: PartitionBuffer) -> bool:
        """Whether a partition of which nothing more has come is at its end for all the others."""
        if not self._shared(topic_partition):
            return True
        end = self._seen.ends.get(topic_partition)
        if end is None or self._passed:
            return False
        if feed.next < end and not (feed.stuck(OPEN_SECONDS) and self._open(topic_partition, feed)):
            return False
        self._bounded = True
        return True

    def _open(self, topic_partition: Place, feed: PartitionBuffer) -> bool:
        """Whether a transaction is in the way of what is written behind."""
        asked, ends = self._committed
        known = topic_partition in ends and time.monotonic() < asked + _KNOWN_SECONDS
        if not known:
            self._doubted.add(topic_partition)
        return known and feed.next >= ends[topic_partition]

    def ask(self, feeds: Mapping[Place, PartitionBuffer]) -> None:
        """Look, for the next `begin`, if what was seen last cannot be enough any more."""
        self._resolve()
        noted = {
            topic_partition: feed.next
            for topic_partition, feed in feeds.items()
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

"""Which records of an embedded log are too old to be kept, or too many.

As in Kafka, `retention.ms` and `retention.bytes` of a topic whose `cleanup.policy` has `delete` are
about each partition, and whole segments of it leave: when their newest record is too old, or while
the partition has enough bytes without them. Unlike there, a segment is closed at the latest when
its records are a quarter of `retention.ms` apart (`segment.ms` says otherwise), and what a group
has still to read stays: there is no other copy of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import duckdb

from millstream.log import tables
from millstream.log.contents import Contents
from millstream.log.logfile import Change
from millstream.log.measures import Measures, SegmentMeasures
from millstream.log.stored import Stored
from millstream.log.tables import Measured

CHECK_MS = 60_000
"""How often it is looked at."""
_NOTHING = Measured(-1, -1, 0, 0)


class Retention:
    """What is known of segments, and when to look again. Used under the log's lock."""

    def __init__(self, clock: Callable[[], int], change: Change) -> None:
        """`clock`: the time of day in ms."""
        self._clock = clock
        self._change = change
        self._due = 0
        self._expires: int | None = None
        self.untidy: set[str] = set()
        """Topics that may have segments without a retained record: only truncating one or opening
        its next segment can make such a segment."""
        self._measures = SegmentMeasures()

    @property
    def due(self) -> bool:
        """Whether it is time to look."""
        return self._clock() >= self._due

    @property
    def due_at(self) -> int:
        """When it is time to look."""
        return self._due

    @property
    def expires_at(self) -> int | None:
        """When to look although nothing was written since the last look: as soon as a record is
        too old, but seldom; None if none ever will be."""
        return None if self._expires is None else max(self._due, self._expires)

    def look(self) -> None:
        """Look the next time, however short the last one is ago."""
        self._due = 0

    def starts(
        self, cursor: duckdb.DuckDBPyConnection, contents: Contents
    ) -> list[tuple[str, int, int]]:
        """(topic, partition, first offset that is kept) where records leave now; nothing before it
        is time to look."""
        if not self.due:
            return []
        self._due = self._clock() + CHECK_MS
        self._expires = None
        found = []
        limited = [stored for stored in contents.topics.values() if stored.policy.limited]
        read = contents.read_by_all() if limited else {}
        for stored in limited:
            measured = [self._measures.of(cursor, stored, each) for each in stored.segments]
            for partition in range(stored.topic.partitions):
                at = stored.topic.name, partition
                start = self._start(stored, partition, measured)
                self._expire(stored, partition, measured, start)
                start = min(start, read.get(at, start))
                if start > stored.starts[partition]:
                    found.append((*at, start))
        self._measures.forget_others(limited)
        return found

    def _expire(
        self, stored: Stored, partition: int, measured: Sequence[Measures | None], start: int
    ) -> None:
        """Note when the first segment with records from `start` on is too old."""
        oldest_ms = stored.policy.oldest_ms
        for each, end in zip(measured, stored.segment_ends(partition), strict=True):
            if end > start and oldest_ms is not None:
                now = self._clock()
                newest = now if each is None else each.get(partition, _NOTHING).newest
                at = newest + oldest_ms + 1
                self._expires = at if self._expires is None else min(self._expires, at)
                return

    def drop_dead(self, contents: Contents) -> None:
        """Drop segments without a retained record."""
        for name in tuple(self.untidy):
            stored = contents.topics.get(name)
            dead = stored.dead_segments() if stored else ()
            if stored and dead:
                with self._change() as (cursor, _):
                    for segment in dead:
                        tables.drop_segment(cursor, stored, segment)
                contents.dropped = True
                contents.topics[name] = replace(stored, segments=stored.segments[len(dead) :])
            self.untidy.discard(name)

    def _start(self, stored: Stored, partition: int, measured: Sequence[Measures | None]) -> int:
        """The first offset of a partition that is kept. What has grown is not old."""
        oldest_ms, most_bytes = stored.policy.oldest_ms, stored.policy.most_bytes
        ends = stored.segment_ends(partition)
        start = stored.starts[partition]
        own = [None if each is None else each.get(partition, _NOTHING) for each in measured]
        size = sum(each.bytes for each in own if each is not None)
        for number, (each, end) in enumerate(zip(own, ends, strict=True)):
            if each is None:
                break
            old = oldest_ms is not None and each.newest < self._clock() - oldest_ms
            last = number == len(ends) - 1
            many = most_bytes is not None and not last and size - each.bytes >= most_bytes
            if not (old or many or end <= start):
                break
            size -= each.bytes
            start = max(start, end)
        return start

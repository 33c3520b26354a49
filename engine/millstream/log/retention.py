"""Which records of an embedded log are too old to be kept, or too many.

As in Kafka, `retention.ms` and `retention.bytes` of a topic whose `cleanup.policy` has `delete` are
about each partition, and whole segments of it leave: when their newest record is too old, or while
the partition has enough bytes without them. Unlike there, a segment is closed at the latest when
its records are a quarter of `retention.ms` apart (`segment.ms` says otherwise), and what a group
has still to read stays: there is no other copy of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

import duckdb

from millstream.log import tables
from millstream.log.contents import Contents
from millstream.log.log import Topic
from millstream.log.logfile import Writing
from millstream.log.stored import Segment, Stored
from millstream.log.tables import Measured

CHECK_MS = 60_000
"""How often it is looked at."""
_NOTHING = Measured(-1, 0)
Change = Callable[[], AbstractContextManager[Writing]]
"""Begins a transaction of the file."""


class Retention:
    """What is known of segments, and when to look again. Used under the log's lock."""

    def __init__(self, clock: Callable[[], int]) -> None:
        """`clock`: the time of day in ms."""
        self._clock = clock
        self._due = 0
        self.untidy: set[str] = set()
        """Topics that may have segments without a retained record: only truncating one or opening
        its next segment can make such a segment."""
        self._known: dict[tuple[int, int], tuple[int, Mapping[int, Measured]]] = {}
        """By topic and segment: how many records it had, and what was measured."""

    @property
    def due(self) -> bool:
        """Whether it is time to look."""
        return self._clock() >= self._due

    def starts(
        self, cursor: duckdb.DuckDBPyConnection, contents: Contents
    ) -> list[tuple[str, int, int]]:
        """(topic, partition, first offset that is kept) where records leave now; nothing before it
        is time to look."""
        if not self.due:
            return []
        self._due = self._clock() + CHECK_MS
        found, seen = [], set()
        for name, stored in contents.topics.items():
            limits = _limits(stored.topic)
            if limits is None:
                continue
            measured = [self._measured(cursor, stored, segment) for segment in stored.segments]
            seen |= {(stored.id, segment.number) for segment in stored.segments}
            for partition in range(stored.topic.partitions):
                start = self._start(stored, partition, measured, *limits)
                at = name, partition
                for positions in contents.positions.values():
                    start = min(start, positions.get(at, start))
                if start > stored.starts[partition]:
                    found.append((*at, start))
        self._known = {at: known for at, known in self._known.items() if at in seen}
        return found

    def drop_dead(self, contents: Contents, change: Change) -> None:
        """Drop segments without a retained record."""
        for name in tuple(self.untidy):
            stored = contents.topics.get(name)
            dead = stored.dead_segments() if stored else ()
            if stored and dead:
                with change() as (cursor, _):
                    for segment in dead:
                        tables.drop_segment(cursor, stored, segment)
                contents.topics[name] = replace(stored, segments=stored.segments[len(dead) :])
            self.untidy.discard(name)

    def _measured(
        self, cursor: duckdb.DuckDBPyConnection, stored: Stored, segment: Segment
    ) -> Mapping[int, Measured] | None:
        """The newest times and sizes of a segment by partition; None of one that has grown since
        the last look, which is not old."""
        at, closed = (stored.id, segment.number), segment is not stored.segments[-1]
        records, found = self._known.get(at, (-1, {}))
        if found and records == segment.records:
            return found
        grown = not closed and records != segment.records
        found = {} if grown else tables.measure(cursor, stored, segment)
        self._known[at] = segment.records, found
        return None if grown else found

    def _start(
        self,
        stored: Stored,
        partition: int,
        measured: list[Mapping[int, Measured] | None],
        oldest_ms: int | None,
        most_bytes: int | None,
    ) -> int:
        """The first offset of a partition that is kept."""
        ends = [segment.first[partition] for segment in stored.segments[1:]]
        ends.append(stored.ends[partition])
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


def _limits(topic: Topic) -> tuple[int | None, int | None] | None:
    """The age in ms and the bytes of a partition that are kept; None if there are no limits."""
    if "delete" not in topic.config.get("cleanup.policy", "delete").split(","):
        return None
    age, size = (_number(topic, name) for name in ("retention.ms", "retention.bytes"))
    return None if age is None and size is None else (age, size)


def _number(topic: Topic, name: str) -> int | None:
    """A limit; None for none, which Kafka writes as -1, and for what is no number."""
    text = topic.config.get(name, "").strip()
    return int(text) if text.isdecimal() else None

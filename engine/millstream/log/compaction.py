"""Which records of an embedded log have a newer one with the same key, and leave.

As in Kafka, the segments of a topic whose `cleanup.policy` has `compact` are cleaned up to the
last one, up to what is `min.compaction.lag.ms` old, and when enough of them is new
(`min.cleanable.dirty.ratio`). The offsets of the others stay. What a group has still to read stays,
too. Segments are written again one group after another, while the log goes on; only the exchange
of their tables waits for its lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile

import duckdb

from millstream.log import rewriting, tables
from millstream.log.contents import Contents
from millstream.log.interruptible import InterruptibleStatement
from millstream.log.log import TopicPartition
from millstream.log.logfile import Change, InDoubtError, LogFile
from millstream.log.measures import Measures, SegmentMeasures
from millstream.log.stored import Segment, Stored
from millstream.model.errors import MillstreamError

KEPT_MS = 60_000
"""How long tables that are not used any more are kept for those that read them."""


@dataclass(frozen=True, slots=True)
class Cleaning:
    """The first segments of a topic, which can be compacted, with what they have."""

    stored: Stored
    segments: tuple[Segment, ...]
    measured: tuple[Measures, ...]

    @property
    def dirty(self) -> int:
        """The bytes that were not compacted yet."""
        return sum(size for size, each in self._sizes() if not each.cleaned)

    @property
    def due(self) -> bool:
        """Whether these are enough."""
        dirty, size = self.dirty, sum(size for size, _ in self._sizes())
        return dirty > 0 and dirty >= self.stored.policy.dirty_ratio * size

    def _sizes(self) -> Iterator[tuple[int, Segment]]:
        sizes = (sum(part.bytes for part in each.values()) for each in self.measured)
        return zip(sizes, self.segments, strict=True)

    def groups(self) -> Iterator[tuple[Segment, ...]]:
        """Segments that become one."""
        group: list[Segment] = []
        size, oldest = 0, 0
        for (bytes_, segment), measures in zip(self._sizes(), self.measured, strict=True):
            first = min((part.oldest for part in measures.values()), default=oldest)
            newest = max((part.newest for part in measures.values()), default=oldest)
            if group and (self._full(size + bytes_) or self._apart(newest - oldest)):
                yield tuple(group)
                group, size = [], 0
            oldest = min(oldest, first) if group else first
            group.append(segment)
            size += bytes_
        if group:
            yield tuple(group)

    def _full(self, size: int) -> bool:
        return size > self.stored.policy.segment_bytes

    def _apart(self, ms: int) -> bool:
        """Whether records are too far apart for one segment, because they leave with it."""
        policy = self.stored.policy
        return policy.limited and policy.segment_ms is not None and ms >= policy.segment_ms


class Compaction:
    """Compacts the topics of one log, in one thread at a time."""

    def __init__(
        self,
        file: LogFile,
        contents: Contents,
        lock: AbstractContextManager[object],
        change: Change,
        clock: Callable[[], int],
    ) -> None:
        """`lock`: the log's. `change` is called under it. `clock`: the time of day in ms."""
        self._file = file
        self._contents = contents
        self._lock = lock
        self._change = change
        self._clock = clock
        self._measures = SegmentMeasures()
        self._statement = InterruptibleStatement()
        self._replaced: list[tuple[int, str]] = []
        """Tables that are not used any more, but that somebody may still read, and since when."""

    def run(self, going_on: Callable[[], bool] = lambda: True) -> int:
        """Compact what is due; returns how many segments were written or found clean. Raises
        MillstreamError or duckdb.Error where it cannot go on; what it has done until then stays.
        `going_on`: asked before each segment."""
        done = 0
        self._drop_replaced()
        with self._lock:
            topics, read = tuple(self._contents.topics.values()), self._contents.read_by_all()
        with self._statement.cursor(self._file) as cursor:
            for stored in topics:
                if stored.policy.compacts and len(stored.segments) > 1 and going_on():
                    cleaning = self._cleaning(cursor, stored, read)
                    if cleaning is not None and cleaning.due:
                        done += self._clean(cursor, cleaning, going_on)
        self._measures.forget_others(topics)
        return done

    def interrupt(self) -> None:
        """See `Background`."""
        self._statement.interrupt()

    def begin(self, unknown: Sequence[str]) -> None:
        """Note tables that were found when the log was opened, and that belong to no segment."""
        self._replaced += [(0, relation) for relation in unknown]

    @property
    def waiting(self) -> bool:
        """Whether there may be something to do."""
        topics = tuple(self._contents.topics.values())
        several = any(each.policy.compacts and len(each.segments) > 1 for each in topics)
        return several or bool(self._replaced)

    @property
    def drops_at(self) -> int | None:
        """When a replaced segment can be dropped, if there is one; ms since 1970."""
        return min((since + KEPT_MS for since, _ in self._replaced), default=None)

    def _drop_replaced(self) -> None:
        before = self._clock() - KEPT_MS
        old = [relation for since, relation in self._replaced if since <= before]
        if not old:
            return
        with self._lock:
            used = {
                stored.relation(segment)
                for stored in self._contents.topics.values()
                for segment in stored.segments
            }
            with self._change() as (cursor, _):
                for relation in old:
                    # One that was abandoned may have been written again.
                    if relation not in used:
                        cursor.execute(f"DROP TABLE IF EXISTS {relation}")
            self._contents.dropped = True
        self._replaced = [(since, each) for since, each in self._replaced if since > before]

    def _cleaning(
        self,
        cursor: duckdb.DuckDBPyConnection,
        stored: Stored,
        read: Mapping[TopicPartition, int],
    ) -> Cleaning | None:
        """What can be compacted of a topic; None if nothing can."""
        segments, measured, lag_ms = [], [], stored.policy.lag_ms
        for segment, following in pairwise(stored.segments):
            places = ((stored.topic.name, part) for part in range(stored.topic.partitions))
            if any(
                end > read.get(place, end)
                for place, end in zip(places, following.first, strict=True)
            ):
                break
            measures = self._measures.of(cursor, stored, segment) or {}
            newest = max((part.newest for part in measures.values()), default=0)
            if lag_ms and newest > self._clock() - lag_ms:
                break
            segments.append(segment)
            measured.append(measures)
        return Cleaning(stored, tuple(segments), tuple(measured)) if segments else None

    def _clean(
        self,
        cursor: duckdb.DuckDBPyConnection,
        cleaning: Cleaning,
        going_on: Callable[[], bool],
    ) -> int:
        stored, done = cleaning.stored, 0
        rewriting.find_newest(cursor, stored, cleaning.segments)
        try:
            for group in takewhile(lambda _: going_on(), cleaning.groups()):
                done += self._exchanged(stored, group, self._written(cursor, stored, group))
        finally:
            with suppress(duckdb.Error):
                rewriting.forget_newest(cursor)
        return done

    def _written(
        self, cursor: duckdb.DuckDBPyConnection, stored: Stored, group: Sequence[Segment]
    ) -> Segment:
        """The segment that takes the place of a group."""
        now = self._clock()
        if len(group) == 1 and not self._leaving(cursor, stored, group[0], now):
            return replace(group[0], cleaned=True)
        return rewriting.rewrite(cursor, stored, group, now)

    def _leaving(
        self, cursor: duckdb.DuckDBPyConnection, stored: Stored, segment: Segment, now: int
    ) -> int:
        """How many records leave a segment."""
        measures = self._measures.of(cursor, stored, segment) or {}
        records = sum(part.records for part in measures.values())
        return records - rewriting.count_staying(cursor, stored, (segment,), now)

    def _exchanged(self, stored: Stored, old: Sequence[Segment], new: Segment) -> bool:
        """Have the log use a segment in place of others; not if they have left it meanwhile."""
        name = stored.topic.name
        with self._lock:
            current = self._contents.topics.get(name)
            same = current is not None and current.id == stored.id
            after = current.replaced(old, new) if current is not None and same else None
            written = new.table != old[-1].table
            if after is None:
                self._replace(stored, (new,) * written)
                return False
            try:
                with self._change() as (cursor, _):
                    tables.replace_segments(cursor, stored, old, new)
            except InDoubtError:
                # One of both is in use; the next opening finds the other one.
                raise
            except MillstreamError:
                self._replace(stored, (new,) * written)
                raise
            self._contents.topics[name] = after
            self._replace(stored, tuple(old) * written)
        return True

    def _replace(self, stored: Stored, segments: Sequence[Segment]) -> None:
        now = self._clock()
        self._replaced += [(now, stored.relation(segment)) for segment in segments]

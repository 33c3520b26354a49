"""Reads by position from what consumers have fetched ahead.

All readers of a log share its main consumer, which is at the end of the partitions or goes there.
A reader that is somewhere else in a partition, because it began at an earlier offset or was slower
than others, reads it from a *catch-up* consumer of its own until it has come to what the main one
holds. Which consumer it is makes no difference to what is read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from millstream.log.kafka.client import REQUEST_SECONDS
from millstream.log.kafka.fetcher import Fetcher
from millstream.log.kafka.partition_buffer import Cursor
from millstream.log.kafka.shared_looks import SharedLooks
from millstream.log.kafka.stable_offsets import StableOffsets
from millstream.log.kafka.topics import Topics
from millstream.log.log import Fetched
from millstream.log.log import TopicPartition as Place
from millstream.model.batch import NO_RECORDS
from millstream.model.errors import CorruptionError, UnavailableError


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """What all readers of a log have in common. `written`: the offsets after the last records
    written by this process, which reads must show. `shared` selects partitions whose mutual order
    matters and that other processes write."""

    topics: Topics
    written: Mapping[Place, int]
    looks: SharedLooks
    shared: Callable[[Place], bool]

    def ended(self, cursor: Cursor) -> bool:
        """Whether everything there is was fetched."""
        return cursor.end is not None and cursor.next >= self.written.get(cursor.place, 0)


class KafkaReader:
    """The positions of one caller, which calls from one thread at a time; `ready` and `close` can
    be called from any."""

    def __init__(
        self, context: ReaderContext, main: Fetcher | None, catch_up: Callable[[], Fetcher]
    ) -> None:
        """`main`: the fetcher that readers share, None for a caller that reads much once and alone.
        `catch_up` makes a fetcher for this reader."""
        self._context = context
        self._main = main
        self._make_catch_up = catch_up
        self._catch_up: Fetcher | None = None
        self._cursors: dict[Place, Cursor] = {}
        self._behind: dict[Place, Cursor | None] = {}
        """The partitions that are read by catching up, with the cursor that is reserved in the main
        fetcher."""
        self._stable_offsets = StableOffsets(context.looks.ask, context.shared)
        self._together = True
        self._closed = False
        self._lock = threading.Lock()

    def begin(self, together: Collection[Place] = ()) -> None:
        """Begin a read of partitions, either in one common order or each for itself."""
        with self._lock:
            self._together = bool(together)
            self._stable_offsets.begin(self._cursors)

    def read(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_records: int,
        before: int | None = None,
    ) -> Fetched[pa.Table]:
        """At most `max_records` from `offset` on, of those that have been fetched. See `Reader`."""
        place = (topic, partition)
        self._context.topics.check(place)
        if before is not None and offset >= before:
            return Fetched(topic, partition, NO_RECORDS, 0, offset, True)
        try:
            with self._lock:
                return self._read(place, offset, max_records, before)
        except CorruptionError as error:
            raise self._context.topics.out_of_range(place, offset) from error

    def ready(self, positions: Mapping[Place, int]) -> int:
        """Records fetched for all partitions, including those read last."""
        return sum(cursor.count for cursor in tuple(self._cursors.values()) if cursor.attached)

    def close(self) -> None:
        """Release what was fetched for this reader; idempotent."""
        with self._lock:
            self._closed = True
            self._cursors, self._behind = {}, {}
            for fetcher in (self._main, self._catch_up):
                if fetcher is not None:
                    fetcher.release(self)

    # ---- where a partition is read -------------------------------------------------------------

    def _read(
        self, place: Place, offset: int, max_records: int, before: int | None
    ) -> Fetched[pa.Table]:
        if self._closed:
            raise UnavailableError("The log is closed")
        while True:
            fetcher = self._locate(place, offset, max_records)
            with fetcher.lock:
                fetcher.check(self)
                cursor = self._cursors[place]
                # It may have been detached since.
                if not cursor.attached:
                    continue
                found = self._taken(fetcher, cursor, max_records, before)
            return self._nothing_yet(cursor) if found is None else found

    def _locate(self, place: Place, offset: int, max_records: int) -> Fetcher:
        """The fetcher whose records `_cursors` refers to, from `offset` on."""
        cursor, main = self._cursors.get(place), self._main
        if main is not None and cursor is not None and place not in self._behind:
            if main.move(cursor, offset):
                return main
        elif cursor is not None and self._joined(cursor, offset, max_records):
            assert main is not None
            return main
        if main is not None and place not in self._behind:
            entered = main.enter(place, offset, self)
            if cursor is not None:
                main.leave(cursor)
            if entered is not None:
                self._cursors[place] = entered
                return main
            cursor = None
        return self._catching_up(place, cursor, offset)

    def _catching_up(self, place: Place, cursor: Cursor | None, offset: int) -> Fetcher:
        if self._catch_up is None:
            self._catch_up = self._make_catch_up()
        self._behind.setdefault(place, None)
        if cursor is None or not self._catch_up.move(cursor, offset):
            self._cursors[place] = self._catch_up.replace(place, offset, self)
        return self._catch_up

    def _joined(self, cursor: Cursor, offset: int, max_records: int) -> bool:
        """Whether a reader that catches up goes on in the main fetcher from now on."""
        main, place = self._main, cursor.place
        if main is None:
            return False
        reserved = self._behind[place]
        if reserved is not None and not reserved.attached:
            reserved = self._behind[place] = None
        joined = reserved if reserved is not None and main.claim(reserved, offset) else None
        if joined is None and reserved is None:
            joined = main.enter(place, offset, self)
        if joined is not None:
            self._leave_catch_up(cursor)
            self._cursors[place] = joined
            return True
        answered = cursor.end is not None or cursor.count > 0
        if reserved is None and answered and cursor.count <= max_records:
            # The rest is here: it is not to be dropped there any more.
            self._behind[place] = main.reserve(place, offset, cursor.next, self)
        return False

    def _leave_catch_up(self, cursor: Cursor) -> None:
        assert self._catch_up is not None
        self._catch_up.leave(cursor)
        del self._behind[cursor.place]

    def _leave(self, fetcher: Fetcher, cursor: Cursor) -> None:
        fetcher.leave(cursor)
        del self._cursors[cursor.place]
        reserved = self._behind.pop(cursor.place, None)
        if reserved is not None and self._main is not None:
            self._main.leave(reserved)

    # ---- what is read --------------------------------------------------------------------------

    def _taken(
        self, fetcher: Fetcher, cursor: Cursor, max_records: int, before: int | None
    ) -> Fetched[pa.Table] | None:
        if not cursor.count and cursor.buffer.fault is not None:
            self._leave(fetcher, cursor)
            raise cursor.buffer.fault.with_traceback(None)
        if before is not None:
            # All partitions end where they ended at one moment: no record before these offsets can
            # be later than one behind them.
            return self._taken_before(cursor, max_records, before)
        place = cursor.place
        bound = self._stable_offsets.bound(place, cursor) if self._together else None
        batch = cursor.first(max_records, bound)
        at_end = self._context.ended(cursor) and batch.num_rows == cursor.count
        if at_end and self._together:
            at_end = self._stable_offsets.at_end(place, cursor)
        if not at_end and not batch.num_rows:
            return None
        return fetched(cursor, batch, cursor.next if at_end else None)

    def _taken_before(
        self, cursor: Cursor, max_records: int, before: int
    ) -> Fetched[pa.Table] | None:
        batch = cursor.first(max_records, before)
        end = cursor.next >= before and batch.num_rows < max_records
        if not end and not batch.num_rows:
            return None
        return fetched(cursor, batch, before if end else None)

    def _nothing_yet(self, cursor: Cursor) -> Fetched[pa.Table]:
        if self._together and (cursor.count or cursor.end is not None):
            self._stable_offsets.ask(self._cursors)
        now = time.monotonic()
        cursor.awaited = cursor.awaited or now
        if now - cursor.awaited >= REQUEST_SECONDS:
            raise silence(cursor.place, cursor.offset)
        return Fetched(*cursor.place, NO_RECORDS, 0, cursor.offset, False, awaited=True)


def fetched(cursor: Cursor, batch: pa.Table, end: int | None) -> Fetched[pa.Table]:
    """What was read at a cursor; `end`: the offset where the partition ends, None if more may
    come."""
    cursor.awaited = None
    count = batch.num_rows
    following = batch["offset"][-1].as_py() + 1 if end is None else end
    size = cursor.size * count // cursor.count if count else 0
    return Fetched(*cursor.place, batch, count, following, end is not None, size)


def silence(place: Place, offset: int) -> UnavailableError:
    """The error of a read that brought nothing for too long."""
    return UnavailableError(
        f"Could not read topic '{place[0]}', partition {place[1]}, at offset {offset}: nothing"
        f" came for {REQUEST_SECONDS:.0f} seconds",
        hint="Is the Kafka cluster up and reachable?",
    )

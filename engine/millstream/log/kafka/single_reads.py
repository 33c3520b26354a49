"""Reads of a log by callers that keep no reader, such as those of the command topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from millstream.log.kafka.client import REQUEST_SECONDS
from millstream.log.kafka.fetcher import Fetcher
from millstream.log.kafka.partition_buffer import Cursor
from millstream.log.kafka.reader import ReaderContext, fetched, silence
from millstream.log.log import Fetched
from millstream.log.log import TopicPartition as Place
from millstream.model.batch import NO_RECORDS
from millstream.model.errors import CorruptionError

KEPT_SECONDS = 5.0
"""How long a partition is fetched after the last read of it; after that its caller has to wait for
the records again."""


class SingleReads:
    """Reads that wait, from any thread. A caller that reads on where it stopped finds the records
    fetched already; another position resets the consumer."""

    def __init__(self, context: ReaderContext, fetcher: Fetcher) -> None:
        """`fetcher`: for these reads alone."""
        self._context = context
        self._fetcher = fetcher
        self._cursors: dict[Place, Cursor] = {}
        self._busy: set[Place] = set()
        """Partitions that a caller waits for."""

    def read(self, place: Place, offset: int, max_records: int) -> Fetched[pa.Table]:
        """`max_records` from `offset` on; fewer at the end, or if they are large."""
        self._context.topics.check(place)
        try:
            with self._fetcher.lock, self._alone(place, offset):
                return self._read(place, offset, max_records)
        except CorruptionError as error:
            raise self._context.topics.out_of_range(place, offset) from error

    @contextmanager
    def _alone(self, place: Place, offset: int) -> Iterator[None]:
        lock = self._fetcher.lock
        if not lock.wait_for(lambda: place not in self._busy, REQUEST_SECONDS):
            raise silence(place, offset)
        self._busy.add(place)
        try:
            yield
        finally:
            self._busy.discard(place)
            lock.notify_all()

    def _read(self, place: Place, offset: int, max_records: int) -> Fetched[pa.Table]:
        fetcher = self._fetcher
        cursor = self._cursors.get(place)
        if cursor is None or not fetcher.move(cursor, offset):
            cursor = self._cursors[place] = fetcher.replace(place, offset, place)
        fetcher.retry(place)
        # Not to be released while this waits.
        cursor.used = time.monotonic() + REQUEST_SECONDS
        if not self._complete(cursor, max_records):
            cursor.awaited = time.monotonic()
            fetcher.lock.wait_for(lambda: self._complete(cursor, max_records), REQUEST_SECONDS)
        cursor.awaited, cursor.used = None, time.monotonic()
        fetcher.check(place)
        batch = cursor.first(max_records) if cursor.attached else NO_RECORDS
        if not batch.num_rows and cursor.buffer.fault is not None:
            del self._cursors[place]
            raise cursor.buffer.fault.with_traceback(None)
        at_end = self._context.ended(cursor) and batch.num_rows == cursor.count
        if not cursor.attached or not (at_end or batch.num_rows):
            raise silence(place, offset)
        return fetched(cursor, batch, cursor.next if at_end else None)

    def _complete(self, cursor: Cursor, max_records: int) -> bool:
        if cursor.buffer.fault or not cursor.attached or self._fetcher.failed(cursor.owner):
            return True
        if cursor.count >= max_records or cursor.size >= self._fetcher.share() // 2:
            return True
        return self._context.ended(cursor)

"""Gives the space of what has left an embedded log back to the file system.

DuckDB cuts free blocks off at the end of a file when it takes a checkpoint, and writes what is new
to the first free ones. So the tables that are furthest behind in the file are written again, one
after another, until it is small enough. The rest of the log goes on meanwhile, as with compaction;
only the last segment of a topic, which is small, and the log's own tables wait for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace

import duckdb

from millstream.log import moving, tables
from millstream.log.contents import Contents
from millstream.log.duckfile import MEMORY
from millstream.log.interruptible import InterruptibleStatement
from millstream.log.logfile import Change, LogFile
from millstream.log.stored import LARGE_SEGMENT_BYTES, Segment, Stored
from millstream.model import file_space

ENOUGH = 1.1
"""A file is shrunk to so many times the bytes in use, and only when it has more than `MOST` times:
in a steady state, what is freed is used again soon, and moving tables would be in vain."""
_BETWEEN = 32 << 20
"""The bytes that are moved between two checkpoints."""


class Shrinking:
    """Shrinks the file of one log, in one thread at a time."""

    def __init__(
        self,
        file: LogFile,
        contents: Contents,
        lock: AbstractContextManager[object],
        change: Change,
    ) -> None:
        """`lock`: the log's. `change` is called under it."""
        self._file = file
        self._contents = contents
        self._lock = lock
        self._change = change
        self._statement = InterruptibleStatement()

    @property
    def waiting(self) -> bool:
        """Whether something has left since the last look, and the file is not small."""
        if not self._contents.dropped or self._file.path == MEMORY:
            return False
        with suppress(OSError):
            return os.stat(self._file.path).st_size > file_space.SPARE_BYTES  # noqa: PTH116 often called
        return False

    def interrupt(self) -> None:
        """See `Background`."""
        self._statement.interrupt()

    def run(self, going_on: Callable[[], bool] = lambda: True) -> int:
        """Shrink the file if it has too much that is free; returns how many tables were moved.
        Raises MillstreamError or duckdb.Error where it cannot go on; what it has done until then
        stays, and the next call goes on. `going_on`: asked before each table."""
        self._contents.dropped = False
        try:
            self._checkpoint()
            with self._statement.cursor(self._file) as cursor:
                large = moving.space(cursor).exceeds(file_space.MOST)
                return self._shrink(cursor, going_on) if large else 0
        except BaseException:
            self._contents.dropped = True
            raise

    def _checkpoint(self) -> None:
        with self._lock:
            # Without a write-ahead log, as behind an opening, there is nothing new to free.
            self._contents.dropped |= not self._file.checkpoint(1, attached=False)

    def _shrink(self, cursor: duckdb.DuckDBPyConnection, going_on: Callable[[], bool]) -> int:
        moved, size = 0, 0
        for placed in moving.hindmost(cursor):
            if not going_on():
                self._contents.dropped = True
                break
            moved += self._move(cursor, placed.relation)
            size += placed.bytes
            if size >= _BETWEEN:
                size = 0
                self._checkpoint()
                if not moving.space(cursor).exceeds(ENOUGH):
                    break
        self._checkpoint()
        return moved

    def _move(self, cursor: duckdb.DuckDBPyConnection, relation: str) -> bool:
        """Move a table; not one of records that no topic has any more."""
        if not relation.startswith("log.records_"):
            return self._move_at_once(relation)
        with self._lock:
            stored, segment = self._find(relation) or (None, None)
            if stored is None or segment is None:
                return False
            last = segment is stored.segments[-1]
            if last and segment.bytes > LARGE_SEGMENT_BYTES:
                self._close(stored, segment)
            elif last:
                return self._move_at_once(relation)
        try:
            if not moving.copy(cursor, relation):
                return False
            with self._lock:
                if self._find(relation) is None:
                    return False
                with self._change() as (changing, _):
                    moving.exchange(changing, relation)
            return True
        except duckdb.CatalogException:
            # It was dropped meanwhile.
            return False
        finally:
            with suppress(duckdb.Error):
                moving.drop_copy(cursor, relation)

    def _move_at_once(self, relation: str) -> bool:
        with self._lock, self._change() as (cursor, _):
            copied = moving.copy(cursor, relation)
            assert copied, f"{relation} is dropped only under the lock"
            moving.exchange(cursor, relation)
        return True

    def _close(self, stored: Stored, last: Segment) -> None:
        """Begin a segment, so that the last one does not grow any more."""
        new = Segment(last.number + 1, stored.ends, headers=last.headers)
        with self._change() as (cursor, _):
            tables.insert_segment(cursor, stored, new)
        name = stored.topic.name
        self._contents.topics[name] = replace(stored, segments=(*stored.segments, new))

    def _find(self, relation: str) -> tuple[Stored, Segment] | None:
        """The segment that a table holds."""
        for stored in self._contents.topics.values():
            for segment in stored.segments:
                if stored.relation(segment) == relation:
                    return stored, segment
        return None

"""The work on the file of an embedded log that nobody waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import duckdb

from millstream.log.compaction import Compaction
from millstream.log.contents import Contents
from millstream.log.logfile import LogFile
from millstream.log.retention import Retention
from millstream.model.errors import MillstreamError

CHECKPOINT_BYTES = 64 << 20
"""Size of the write-ahead log at which a checkpoint is taken."""


class Upkeep:
    """Drops what is not kept and takes checkpoints, under the log's lock; compacts in a thread of
    its own, which exists while there is something to compact."""

    def __init__(
        self,
        file: LogFile,
        contents: Contents,
        retention: Retention,
        compaction: Compaction | None,
        truncate: Callable[[str, int, int], None],
    ) -> None:
        """`compaction`: None if nothing is compacted in the background."""
        self._file = file
        self._contents = contents
        self._retention = retention
        self._compaction = compaction
        self._truncate = truncate
        self._thread: threading.Thread | None = None
        self._closing = False

    @property
    def due(self) -> bool:
        """Whether somebody should call `run`, between two transactions."""
        return self._retention.due or self._file.wal_bytes() >= 2 * CHECKPOINT_BYTES

    def run(self) -> bool:
        """See `EmbeddedLog.maintain`."""
        with suppress(MillstreamError, duckdb.Error):
            self._tidy()
        due = self._file.wal_bytes() >= CHECKPOINT_BYTES
        return due and self._file.checkpoint(CHECKPOINT_BYTES)

    def _tidy(self) -> None:
        if self._retention.due:
            self._compact()
        with self._file.cursor() as cursor:
            gone = self._retention.starts(cursor, self._contents)
        for topic, partition, start in gone:
            self._truncate(topic, partition, start)
        self._retention.drop_dead(self._contents)

    def _compact(self) -> None:
        compaction = self._compaction
        if compaction is None or self._thread is not None or self._closing:
            return

        def run() -> None:
            # What cannot be done now is done the next time.
            with suppress(MillstreamError, duckdb.Error):
                compaction.run(lambda: not self._closing)
            self._thread = None

        if compaction.waiting:
            self._thread = threading.Thread(target=run, name="millstream-compaction", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait until nothing is compacted any more; not under the log's lock."""
        self._closing = True
        thread = self._thread
        if thread is not None and self._compaction is not None:
            self._compaction.interrupt()
            thread.join()

"""The work on the file of an embedded log that nobody waits for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb

from millstream.log.compaction import Compaction
from millstream.log.contents import Contents
from millstream.log.logfile import LogFile
from millstream.log.retention import Retention
from millstream.model.errors import MillstreamError

CHECKPOINT_BYTES = 64 << 20
"""Size of the write-ahead log at which a checkpoint is taken."""
_SHORTEST_WAIT_S = 1.0
_LONGEST_WAIT_S = 86_400.0
_LOG = logging.getLogger("millstream")


class Upkeep:
    """Drops what is not kept and takes checkpoints, under the log's lock; compacts in a thread of
    its own, which exists while there is something to compact. Another one waits for records to
    become too old, as long as there are any."""

    def __init__(
        self,
        file: LogFile,
        contents: Contents,
        retention: Retention,
        compaction: Compaction | None,
        truncate: Callable[[str, int, int], None],
        maintain: Callable[[], object],
        clock: Callable[[], int],
    ) -> None:
        """`compaction`: None if nothing is done in the background. `maintain`: calls `run` under
        the log's lock."""
        self._file = file
        self._contents = contents
        self._retention = retention
        self._compaction = compaction
        self._truncate = truncate
        self._maintain = maintain
        self._clock = clock
        self._timer: threading.Timer | None = None
        self._timer_at = 0
        self._thread: threading.Thread | None = None
        self._closing = False
        self._logged: dict[str, str] = {}

    @property
    def due(self) -> bool:
        """Whether somebody should call `run`, between two transactions."""
        return self._retention.due or self._file.wal_bytes() >= 2 * CHECKPOINT_BYTES

    def run(self) -> bool:
        """See `EmbeddedLog.maintain`."""
        looks = self._retention.due
        with self._failures_logged("Old records could not be dropped"):
            self._tidy()
        # What was written since the last look is only known to the next one.
        self._wake_at(self._retention.expires_at if looks else self._retention.due_at)
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

    def _wake_at(self, at: int | None) -> None:
        """Run again at a time at the latest, even if nothing is written until then."""
        if self._compaction is None or self._closing or at is None:
            return
        if self._timer is not None and self._timer_at <= at:
            return
        if self._timer is not None:
            self._timer.cancel()
        seconds = min(_LONGEST_WAIT_S, max(_SHORTEST_WAIT_S, (at - self._clock()) / 1000))
        self._timer, self._timer_at = threading.Timer(seconds, self._expired), at
        self._timer.daemon = True
        self._timer.name = "millstream-expiry"
        self._timer.start()

    def _expired(self) -> None:
        self._timer = None
        self._maintain()

    def _compact(self) -> None:
        compaction = self._compaction
        if compaction is None or self._thread is not None or self._closing:
            return

        def run() -> None:
            with self._failures_logged("A topic could not be compacted"):
                compaction.run(lambda: not self._closing)
            self._thread = None

        if compaction.waiting:
            self._thread = threading.Thread(target=run, name="millstream-compaction", daemon=True)
            self._thread.start()

    @contextmanager
    def _failures_logged(self, failed: str) -> Iterator[None]:
        """Suppress and log an error, because the work is repeated later. The same error is logged
        once until the work succeeds."""
        try:
            yield
        except (MillstreamError, duckdb.Error) as error:
            if not self._closing and self._logged.get(failed) != str(error):
                self._logged[failed] = str(error)
                _LOG.warning("%s, and will be tried again: %s", failed, error)
        else:
            self._logged.pop(failed, None)

    def close(self) -> None:
        """Wait until nothing is compacted any more; not under the log's lock."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
        thread = self._thread
        if thread is not None and self._compaction is not None:
            self._compaction.interrupt()
            thread.join()

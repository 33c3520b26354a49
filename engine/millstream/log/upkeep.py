"""The work on the file of an embedded log that nobody waits for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import duckdb

from millstream.log.compaction import Compaction
from millstream.log.contents import Contents
from millstream.log.logfile import Change, LogFile
from millstream.log.retention import Retention
from millstream.log.shrinking import Shrinking
from millstream.model.errors import MillstreamError

CHECKPOINT_BYTES = 64 << 20
"""Size of the write-ahead log at which a checkpoint is taken."""
_SHORTEST_WAIT_S = 1.0
_LONGEST_WAIT_S = 86_400.0
_LOG = logging.getLogger("millstream")


class Background(Protocol):
    """Work that takes long, one piece after another."""

    @property
    def waiting(self) -> bool:
        """Whether there may be something to do."""

    def run(self, going_on: Callable[[], bool]) -> int:
        """Do it; returns how many pieces were done. `going_on`: asked before each of them."""

    def interrupt(self) -> None:
        """End what `run` does in another thread now."""


class Maintained(Protocol):
    """The log."""

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """Delete the records before an offset."""

    def maintain(self) -> bool:
        """Call `Upkeep.run` under its lock."""


class Upkeep:
    """Drops what is not kept and takes checkpoints, under the log's lock; compacts and shrinks in a
    thread of its own, which exists while there is something to do. Another one waits for records
    to become too old, as long as there are any."""

    def __init__(
        self,
        log: Maintained,
        file: LogFile,
        contents: Contents,
        lock: AbstractContextManager[object],
        change: Change,
        clock: Callable[[], int],
    ) -> None:
        """`lock`: that of `log`. `change` is called under it."""
        self._log = log
        self._lock = lock
        self._file = file
        self._contents = contents
        self._clock = clock
        self.retention = Retention(clock, change)
        self.compaction = Compaction(file, contents, lock, change, clock)
        self.shrinking = Shrinking(file, contents, lock, change)
        self._background: Sequence[tuple[Background, str]] = ()
        """Each with what is said when it fails; none if nothing is done in the background."""
        self._timer: threading.Timer | None = None
        self._timer_at = 0
        self._thread: threading.Thread | None = None
        self._closing = False
        self._logged: dict[str, str] = {}

    def begin(self, unknown: Sequence[str], *, in_background: bool) -> None:
        """Begin with a log that was opened. `unknown`: its tables that belong to no segment."""
        self.compaction.begin(unknown)
        self.retention.untidy.update(self._contents.topics)
        if in_background:
            self._background = (
                (self.compaction, "A topic could not be compacted"),
                (self.shrinking, "The file could not be shrunk"),
            )

    @property
    def due(self) -> bool:
        """Whether somebody should call `run`, between two transactions."""
        return self.retention.due or self._file.wal_bytes() >= 2 * CHECKPOINT_BYTES

    def run(self) -> bool:
        """See `EmbeddedLog.maintain`."""
        looks = self.retention.due
        with self._failures_logged("Old records could not be dropped"):
            self._tidy()
        # What was written since the last look is only known to the next one.
        self._wake_at(self.retention.expires_at if looks else self.retention.due_at)
        due = self._file.wal_bytes() >= CHECKPOINT_BYTES
        return due and self._file.checkpoint(CHECKPOINT_BYTES)

    def _tidy(self) -> None:
        looks = self.retention.due
        if looks:
            with self._file.cursor() as cursor:
                gone = self.retention.starts(cursor, self._contents)
            for topic, partition, start in gone:
                self._log.truncate(topic, partition, start)
        self.retention.drop_dead(self._contents)
        if looks:
            self._work_on()

    def _wake_at(self, at: int | None) -> None:
        """Run again at a time at the latest, even if nothing is written until then."""
        if not self._background or self._closing or at is None:
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
        self._log.maintain()

    def _work_on(self) -> None:
        """Begin the work in the background, if there is any."""
        waiting = any(work.waiting for work, _ in self._background)
        if not waiting or self._thread is not None or self._closing:
            return

        def run() -> None:
            for work, failed in self._background:
                with self._failures_logged(failed):
                    if work.waiting:
                        work.run(lambda: not self._closing)
            with self._lock:
                self._thread = None
                # What was replaced is still read for a while, and then it is in the way.
                at = self.compaction.drops_at
                self._wake_at(None if at is None else max(at, self.retention.due_at))

        self._thread = threading.Thread(target=run, name="millstream-upkeep", daemon=True)
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
        if thread is not None:
            for work, _ in self._background:
                work.interrupt()
            thread.join()

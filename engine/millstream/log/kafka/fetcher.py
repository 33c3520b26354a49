"""A consumer and its polling thread, which fetch partitions ahead of the readers that share them.

Only the thread touches the consumer, whose calls block every other thread. It keeps the records of
each partition from the position of the slowest reader on, because a reader that held records back
requests them again. Partitions share the room: otherwise one with fewer records would run ahead of
the others in time and fill it with records that are held back until the others arrive.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaException, TopicPartition

from millstream.log.kafka.backend import open_intake
from millstream.log.kafka.client import REQUEST_SECONDS, Settings, translated
from millstream.log.kafka.fetched_partitions import Changes, FetchedPartitions, Pausing
from millstream.log.kafka.intake import Intake, PartitionChunk
from millstream.log.kafka.partition_buffer import Cursor
from millstream.log.log import TopicPartition as Place
from millstream.log.watchers import OnNews, grown
from millstream.model.errors import MillstreamError, UnavailableError

STALL_SECONDS = 3.0
"""How long a consumer that reports the end of a partition may return nothing while more records are
known to exist, before another consumer replaces it. librdkafka (2.16) was observed to stop for good
after the leader of a partition moved."""
RENEWAL_SECONDS = 5.0
"""The least time between two replacements of a sound consumer: each costs its readers some
milliseconds."""
_CHECK_SECONDS = 0.5
"""How often the thread looks for what is overdue."""
_POLL_SECONDS = 0.02
"""How long a poll waits for records, and thus how soon a newly requested partition is assigned."""
_IDLE_SECONDS = 0.08
"""The longest poll, after some that returned nothing."""


class Fetcher:
    """One consumer, which exists as long as a reader needs any partition of it.

    Readers hold `lock` while they use their cursors, for as short a time as possible: the thread
    needs it to add records. Waiting for records is waiting for `lock`.
    """

    def __init__(
        self,
        config: Settings,
        arrived: OnNews,
        room: Callable[[], int],
        *,
        kept_seconds: float | None = None,
    ) -> None:
        """`arrived` is called from the polling thread with the topics that may have something to
        read. `room`: bytes to hold for all partitions. `kept_seconds`: how long a cursor that is
        not used is kept, for ever by default."""
        self.lock = threading.Condition()
        self._config = config
        self._arrived = arrived
        self._room = room
        self._kept_seconds = kept_seconds
        self._partitions = FetchedPartitions()
        self._failures: dict[object, MillstreamError] = {}
        """The failure of the whole consumer, for each owner of cursors that has not seen it."""
        self._renewed = time.monotonic()
        """When a consumer was last replaced."""
        self._check_at = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False

    # ---- readers -------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether there is a consumer, or will be in a moment."""
        return self._thread is not None

    def share(self) -> int:
        """How many bytes a partition may fill now."""
        return self._partitions.share(self._room())

    def enter(self, place: Place, offset: int, owner: object) -> Cursor | None:
        """See `FetchedPartitions`."""
        with self.lock:
            return self._opened(self._partitions.enter(place, offset, owner))

    def replace(self, place: Place, offset: int, owner: object) -> Cursor:
        """See `FetchedPartitions`."""
        with self.lock:
            cursor = self._partitions.replace(place, offset, owner)
            self._opened(cursor)
            return cursor

    def reserve(self, place: Place, offset: int, reached: int, owner: object) -> Cursor | None:
        """See `FetchedPartitions`."""
        with self.lock:
            return self._opened(self._partitions.reserve(place, offset, reached, owner))

    def claim(self, cursor: Cursor, offset: int) -> bool:
        """See `FetchedPartitions`."""
        with self.lock:
            self._opened(cursor)
            return self._partitions.claim(cursor, offset, time.monotonic())

    def move(self, cursor: Cursor, offset: int) -> bool:
        """See `Cursor.move`."""
        with self.lock:
            if self._partitions.full and offset != cursor.offset:
                # The thread may be waiting for room.
                self.lock.notify_all()
            return self._partitions.move(cursor, offset)

    def leave(self, cursor: Cursor) -> None:
        """Release a cursor; idempotent."""
        with self.lock:
            self._partitions.leave(cursor)

    def release(self, owner: object) -> None:
        """Release all cursors of an owner."""
        with self.lock:
            self._failures.pop(owner, None)
            for cursor in [c for c in self._partitions.cursors() if c.owner is owner]:
                self._partitions.leave(cursor)
            self.lock.notify_all()

    def check(self, owner: object) -> None:
        """Raise the failure of the consumer that an owner has not seen yet. The next call starts
        another one."""
        with self.lock:
            failure = self._failures.pop(owner, None)
            if failure is not None:
                raise failure.with_traceback(None)
            self._start()

    def failed(self, owner: object) -> bool:
        """Whether `check` would raise."""
        return owner in self._failures

    def retry(self, owner: object) -> None:
        """Start the consumer again, whatever its failure was."""
        with self.lock:
            self._failures.pop(owner, None)
            self._start()

    def forget(self, topic: str) -> None:
        """Stop fetching a topic that is deleted."""
        with self.lock:
            self._partitions.forget(topic)
            self.lock.notify_all()

    def close(self) -> None:
        """Have the thread close the consumer and end; idempotent."""
        with self.lock:
            self._closed = True
            self.lock.notify_all()

    def join(self) -> None:
        """Wait until the thread has ended."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _opened(self, cursor: Cursor | None) -> Cursor | None:
        # After a failure its owner has to see it first.
        if cursor is not None and cursor.owner not in self._failures:
            self._start()
        return cursor

    def _start(self) -> None:
        if self._thread is None and not self._closed and self._partitions.reading:
            self._thread = threading.Thread(target=self._run, name="millstream-kafka", daemon=True)
            self._thread.start()

    # ---- the polling thread --------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._began():
                intake = open_intake(self._config)
                try:
                    wait: float | None = _POLL_SECONDS
                    while wait is not None:
                        wait = self._polled(intake, wait)
                finally:
                    intake.close()
        except KafkaException as error:
            self._fail(translated(error, "read from Kafka"))
        except MillstreamError as error:
            self._fail(error)
        except Exception as error:
            # Its readers would wait for records that nobody fetches.
            self._fail(UnavailableError("Cannot read from Kafka", detail=repr(error)))

    def _began(self) -> bool:
        """Whether a new consumer is needed, which begins where the last one stopped."""
        with self.lock:
            self._partitions.opened()
            if self._closed or not self._partitions.reading:
                self._thread = None
                return False
            return True

    def _fail(self, failure: MillstreamError) -> None:
        with self.lock:
            self._thread = None
            waiting = [cursor for cursor in self._partitions.cursors() if not cursor.reserved]
            self._failures |= dict.fromkeys((cursor.owner for cursor in waiting), failure)
            self.lock.notify_all()
        self._arrived(grown(cursor.place[0] for cursor in waiting))

    def _polled(self, intake: Intake, wait: float) -> float | None:
        """Take what the client has within `wait` seconds; returns how long to wait next, None if
        the consumer must be closed."""
        with self.lock:
            if self._over():
                return None
            changes = self._partitions.changes()
            pausing = self._partitions.pausing(self._room, time.monotonic())
            if pausing.blocked and not changes.gone and not changes.new:
                self.lock.wait(_POLL_SECONDS)
                return _POLL_SECONDS
        _tell(intake, changes, pausing)
        pieces = intake.take(wait)
        if pieces:
            self._take(pieces)
        return _POLL_SECONDS if pieces or self._partitions.full else min(2 * wait, _IDLE_SECONDS)

    def _over(self) -> bool:
        """Whether the consumer is not needed, or must be replaced."""
        if self._closed or self._partitions.renew or not self._partitions.reading:
            return True
        now = time.monotonic()
        if now < self._check_at:
            return False
        self._check_at = now + min(_CHECK_SECONDS, STALL_SECONDS / 4)
        if self._kept_seconds is not None:
            self._partitions.expire(now - self._kept_seconds)
        wanted = self._partitions.renewal_wanted and now >= self._renewed + RENEWAL_SECONDS
        if wanted or self._partitions.overdue(now, self._renewed, STALL_SECONDS, REQUEST_SECONDS):
            self._renewed = now
            return True
        return False

    def _take(self, pieces: Sequence[PartitionChunk]) -> None:
        with self.lock:
            if self._partitions.renew:
                # They may be of a position that was given up.
                return
            for place, piece in pieces:
                self._partitions.take(place, piece)
            self.lock.notify_all()
        self._arrived(grown(topic for (topic, _), _ in pieces))


def _tell(intake: Intake, changes: Changes, pausing: Pausing) -> None:
    """Pass on what has changed to the client. Readers are not held up meanwhile: what it returns
    of a partition that they leave now moves the paused partition on."""
    if changes.gone:
        intake.consumer.incremental_unassign([TopicPartition(*place) for place in changes.gone])
    if changes.new:
        intake.assign([TopicPartition(*place, offset) for place, offset in changes.new.items()])
    if pausing.resume:
        intake.consumer.resume([TopicPartition(*place) for place in pausing.resume])
    if pausing.pause:
        intake.consumer.pause([TopicPartition(*place) for place in pausing.pause])

"""Reads by position from what a polling thread has prefetched.

Only the thread touches the consumer, whose calls block every other thread. It keeps the records of
each partition from the last requested position on, because a reader that held records back requests
them again. Partitions share the buffer: otherwise one with fewer records would run ahead of the
others in time and fill it with records that are held back until the others arrive.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from millstream.log.kafka.backend import open_intake
from millstream.log.kafka.client import REQUEST_SECONDS, Settings, translated
from millstream.log.kafka.intake import Intake, News, PartitionChunk
from millstream.log.kafka.partition_buffer import PartitionBuffer
from millstream.log.kafka.stable_offsets import Answered, Ends, StableOffsets
from millstream.log.kafka.topics import Topics
from millstream.log.log import Fetched
from millstream.log.log import TopicPartition as Place
from millstream.log.watchers import OnNews, grown
from millstream.model.batch import NO_RECORDS
from millstream.model.errors import CorruptionError, MillstreamError, UnavailableError

STALL_SECONDS = 3.0
"""How long a consumer that reports the end of a partition may return nothing while more records are
known to exist, before another consumer replaces it. librdkafka (2.16) was observed to stop for good
after the leader of a partition moved."""
_STALL_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.02
"""How long a poll waits for records, and thus how soon a newly requested partition is assigned."""
_IDLE_SECONDS = 0.08
"""The longest poll, after some that returned nothing."""


class KafkaReader:
    """One consumer, assigned all requested partitions, for a caller that reads on where it stopped:
    a position before the last one, or behind what was read, creates a new consumer."""

    def __init__(
        self,
        config: Settings,
        topics: Topics,
        written: Mapping[Place, int],
        arrived: OnNews,
        room: Callable[[], int],
        shared: Callable[[Place], bool],
    ) -> None:
        """`written`: the offsets after the last records written by this process, which reads must
        show. `arrived` is called from the polling thread with the topics that may have something to
        read. `room`: bytes to hold for all partitions. `shared` selects partitions whose mutual
        order matters and that other processes write."""
        self._config = config
        self._topics = topics
        self._written = written
        self._arrived = arrived
        self._room = room
        self._buffers: dict[Place, PartitionBuffer] = {}
        self._stable_offsets = StableOffsets(self._look, shared)
        self._together = True
        self._assigned: set[Place] = set()
        self._retired: set[Place] = set()
        """Partitions that the current consumer was assigned and no longer is."""
        self._paused: set[Place] = set()
        self._busy: set[Place] = set()
        """Partitions that a reader waits for."""
        self._anew = False
        self._patience = STALL_SECONDS
        self._renewed = 0.0
        """When a stalled consumer was last replaced."""
        self._news = threading.Condition()
        self._stopping = False
        self._failure: MillstreamError | None = None
        self._thread: threading.Thread | None = None

    def begin(self, together: Collection[Place] = ()) -> None:
        """Begin a read of partitions, either in one common order or each for itself."""
        with self._news:
            self._together = bool(together)
            self._stable_offsets.begin(self._buffers)

    def read(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_records: int,
        before: int | None = None,
    ) -> Fetched[pa.Table]:
        """At most `max_records` from `offset` on, of those that have been fetched. See `Reader`."""
        return self._checked_read((topic, partition), offset, max_records, 0.0, before)

    def wait_and_read(
        self, topic: str, partition: int, offset: int, max_records: int
    ) -> Fetched[pa.Table]:
        """`max_records` from `offset` on; fewer at the end, or if they are large. Callable from any
        thread; a thread that reads the same partition at another position would reset the consumer.
        """
        topic_partition = (topic, partition)
        with self._news:
            if not self._news.wait_for(lambda: topic_partition not in self._busy, REQUEST_SECONDS):
                raise _silence(topic_partition, offset)
            self._busy.add(topic_partition)
        try:
            return self._checked_read(topic_partition, offset, max_records, REQUEST_SECONDS)
        finally:
            with self._news:
                self._busy.discard(topic_partition)
                self._news.notify_all()

    def ready(self, positions: Mapping[Place, int]) -> int:
        """Bytes fetched for all partitions, including those read last."""
        return sum(buffer.count for buffer in tuple(self._buffers.values()))

    @property
    def reading(self) -> bool:
        """Whether records are held or waited for."""
        return bool(self._buffers)

    def forget(self, topic: str) -> None:
        """Stop reading a topic that is deleted."""
        with self._news:
            for topic_partition in [
                topic_partition for topic_partition in self._buffers if topic_partition[0] == topic
            ]:
                del self._buffers[topic_partition]

    def close(self) -> None:
        """End the thread and close the consumer; idempotent."""
        with self._news:
            self._stopping = True
            self._buffers.clear()
            self._news.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _checked_read(
        self,
        topic_partition: Place,
        offset: int,
        max_records: int,
        seconds: float,
        before: int | None = None,
    ) -> Fetched[pa.Table]:
        self._topics.check(topic_partition)
        if before is not None and offset >= before:
            return Fetched(*topic_partition, NO_RECORDS, 0, offset, True)
        try:
            with self._news:
                return self._read(topic_partition, offset, max_records, seconds, before)
        except CorruptionError as error:
            raise self._topics.out_of_range(topic_partition, offset) from error

    def _read(
        self,
        topic_partition: Place,
        offset: int,
        max_records: int,
        seconds: float,
        before: int | None,
    ) -> Fetched[pa.Table]:
        self._start()
        buffer = self._buffer(topic_partition, offset)
        if seconds and not self._complete(topic_partition, buffer, max_records):
            buffer.awaited = buffer.awaited or time.monotonic()
            self._news.wait_for(
                lambda: self._complete(topic_partition, buffer, max_records), seconds
            )
        if self._failure is not None:
            # The thread has ended; the next read starts another one.
            failure, self._failure, self._thread = self._failure, None, None
            raise failure
        if not buffer.count and buffer.fault is not None:
            del self._buffers[topic_partition]
            raise buffer.fault
        if before is not None:
            # All partitions end where they ended at one moment: no record before these offsets can
            # be later than one behind them.
            return self._read_before(topic_partition, buffer, offset, max_records, before)
        bound = self._stable_offsets.bound(topic_partition, buffer) if self._together else None
        batch = buffer.first(max_records, bound)
        at_end = self._ended(topic_partition, buffer) and batch.num_rows == buffer.count
        if at_end and self._together:
            at_end = self._stable_offsets.at_end(topic_partition, buffer)
        if not at_end and not batch.num_rows:
            return self._nothing_yet(topic_partition, buffer, offset)
        buffer.awaited = None
        following = buffer.next if at_end else batch["offset"][-1].as_py() + 1
        count = batch.num_rows
        size = buffer.bytes * count // buffer.count if count else 0
        return Fetched(*topic_partition, batch, count, following, at_end, size)

    def _read_before(
        self,
        topic_partition: Place,
        buffer: PartitionBuffer,
        offset: int,
        max_records: int,
        before: int,
    ) -> Fetched[pa.Table]:
        batch = buffer.first(max_records, before)
        end = buffer.next >= before and batch.num_rows < max_records
        if not end and not batch.num_rows:
            return self._nothing_yet(topic_partition, buffer, offset)
        buffer.awaited = None
        following = before if end else batch["offset"][-1].as_py() + 1
        return Fetched(*topic_partition, batch, batch.num_rows, following, end, batch.nbytes)

    def _nothing_yet(
        self, topic_partition: Place, buffer: PartitionBuffer, offset: int
    ) -> Fetched[pa.Table]:
        if self._together and (buffer.count or buffer.end is not None):
            self._stable_offsets.ask(self._buffers)
        now = time.monotonic()
        buffer.awaited = buffer.awaited or now
        if now - buffer.awaited >= REQUEST_SECONDS:
            raise _silence(topic_partition, offset)
        return Fetched(*topic_partition, NO_RECORDS, 0, offset, False, awaited=True)

    def _look(self, topic_partitions: Sequence[Place], answered: Answered, committed: bool) -> None:
        def told(ends: Ends) -> None:
            answered(ends)
            self._arrived(grown(topic for topic, _ in topic_partitions))

        self._topics.look(topic_partitions, told, committed=committed)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="millstream-kafka", daemon=True)
            self._thread.start()

    def _buffer(self, topic_partition: Place, offset: int) -> PartitionBuffer:
        buffer = self._buffers.get(topic_partition)
        if buffer is not None and buffer.start <= offset <= buffer.next:
            if offset > buffer.start:
                buffer.pass_to(offset)
                self._news.notify_all()
            return buffer
        if buffer is not None or topic_partition in self._assigned | self._retired:
            self._anew = True
        self._buffers[topic_partition] = buffer = PartitionBuffer(offset)
        return buffer

    def _complete(self, topic_partition: Place, buffer: PartitionBuffer, max_records: int) -> bool:
        if buffer.fault is not None or self._failure is not None:
            return True
        if buffer.count >= max_records or buffer.bytes >= self._share() // 2:
            return True
        return self._ended(topic_partition, buffer)

    def _ended(self, topic_partition: Place, buffer: PartitionBuffer) -> bool:
        return buffer.end is not None and buffer.next >= self._written.get(topic_partition, 0)

    def _share(self) -> int:
        """The share of the buffer of each partition that has records or may have some."""
        busy = sum(buffer.end is None or buffer.count > 0 for buffer in self._buffers.values())
        return self._room() // max(1, busy)

    def _run(self) -> None:
        try:
            while not self._stopping:
                intake = open_intake(self._config)
                try:
                    with self._news:
                        self._assigned, self._retired, self._paused = set(), set(), set()
                        self._anew = False
                    self._poll(intake)
                finally:
                    intake.close()
        except KafkaException as error:
            self._fail(translated(error, "read from Kafka"))
        except MillstreamError as error:
            self._fail(error)
        except Exception as error:
            # Its readers would wait for records that nobody fetches.
            self._fail(UnavailableError("Cannot read from Kafka", detail=repr(error)))

    def _fail(self, failure: MillstreamError) -> None:
        with self._news:
            self._failure = failure
            topics = grown(topic for topic, _ in self._buffers)
            self._news.notify_all()
        self._arrived(topics)

    def _poll(self, intake: Intake) -> None:
        """Poll until stopped or until a new consumer is needed: a consumer that is assigned a
        partition again at another offset may still return records of the old position."""
        wait = _POLL_SECONDS
        while not self._stopping:
            with self._news:
                if self._anew or self._stands_still():
                    return
                self._assign(intake)
                if not self._make_room(intake.consumer):
                    self._news.wait(_POLL_SECONDS)
                    continue
            pieces = intake.take(wait)
            if pieces:
                self._take(pieces)
            busy = pieces or self._paused
            wait = _POLL_SECONDS if busy else min(2 * wait, _IDLE_SECONDS)

    def _stands_still(self) -> bool:
        """Whether expected records are long overdue and another consumer should be tried; the
        interval grows while that returns nothing."""
        now = time.monotonic()
        for buffer in self._buffers.values():
            patience = (
                self._patience if buffer.end is not None else REQUEST_SECONDS + self._patience
            )
            waiting = buffer.awaited if not buffer.count else None
            if waiting and now - max(waiting, self._renewed) >= patience:
                self._renewed = now
                self._patience = min(2 * self._patience, _STALL_SECONDS_MAX)
                return True
        return False

    def _assign(self, intake: Intake) -> None:
        gone = self._assigned - self._buffers.keys()
        if gone:
            intake.consumer.incremental_unassign(
                [TopicPartition(*topic_partition) for topic_partition in gone]
            )
        new = self._buffers.keys() - self._assigned
        if new:
            intake.assign(
                [
                    TopicPartition(*topic_partition, self._buffers[topic_partition].next)
                    for topic_partition in new
                ]
            )
        self._assigned = (self._assigned - gone) | new
        self._retired |= gone

    def _make_room(self, consumer: Consumer) -> bool:
        """Pause partitions that have filled their share, until half of it is used; returns whether
        any partition needs more. They are never all paused: the client takes up to a second to
        resume after that."""
        share = self._share()
        full = {
            topic_partition
            for topic_partition in self._assigned
            if self._buffers[topic_partition].bytes >= share
        }
        if full and full == self._assigned:
            return False
        fill = self._paused & self._assigned
        again = {
            topic_partition
            for topic_partition in fill
            if self._buffers[topic_partition].bytes < share // 2
        }
        if again:
            consumer.resume([TopicPartition(*topic_partition) for topic_partition in again])
        if full - fill:
            consumer.pause([TopicPartition(*topic_partition) for topic_partition in full - fill])
        self._paused = (fill - again) | full
        return True

    def _take(self, pieces: Sequence[PartitionChunk]) -> None:
        with self._news:
            if self._anew:
                return
            for topic_partition, piece in pieces:
                buffer = self._buffers.get(topic_partition)
                if buffer is not None and topic_partition in self._assigned:
                    _add(topic_partition, piece, buffer)
                    if buffer.count:
                        self._patience = STALL_SECONDS
            self._news.notify_all()
        self._arrived(grown(topic for (topic, _), _ in pieces))


def _add(topic_partition: Place, piece: pa.Table | News, buffer: PartitionBuffer) -> None:
    if isinstance(piece, pa.Table):
        buffer.add(piece)
    elif piece.error.code() == KafkaError._PARTITION_EOF:
        buffer.reach(piece.offset)
    else:
        attempt = f"read topic '{topic_partition[0]}', partition {topic_partition[1]}"
        buffer.fault = translated(piece.error, attempt)


def _silence(topic_partition: Place, offset: int) -> UnavailableError:
    return UnavailableError(
        f"Could not read topic '{topic_partition[0]}', partition {topic_partition[1]}, at offset"
        f" {offset}: nothing"
        f" came for {REQUEST_SECONDS:.0f} seconds",
        hint="Is the Kafka cluster up and reachable?",
    )

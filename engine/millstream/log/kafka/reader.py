"""Reads by position, served from what a polling thread has already fetched.

The thread alone touches the consumer, whose calls make every other thread wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from millstream.log.kafka.client import REQUEST_SECONDS, consumer_config, translated
from millstream.log.kafka.messages import table_of
from millstream.log.log import Fetched
from millstream.log.log import TopicPartition as Place
from millstream.model.errors import MillstreamError, UnavailableError

_AT_ONCE = 10_000
"""Messages taken from the client's queue in one call."""
_BUFFERED = 200_000
"""Messages held for all partitions; the client's own queue, bounded by bytes, holds more. While
somebody waits for a partition that has none, what comes of the others is held beyond that."""
_POLL_SECONDS = 0.02
"""How long an idle poll waits, and thus how soon a partition asked for anew is assigned."""


@dataclass(slots=True)
class _Feed:
    """What has come of one partition and was not yet read. `next` follows what was read."""

    next: int
    messages: deque[Message] = field(default_factory=deque)
    end: int | None = None
    """The end of the partition, where the client has said that it is reached."""
    fault: MillstreamError | None = None


class Reader:
    """One consumer, assigned whatever was asked for."""

    def __init__(
        self,
        servers: str,
        extra: Mapping[str, str],
        written: Mapping[Place, int],
        arrived: Callable[[], None],
    ) -> None:
        """`written`: the offsets after the last records written by this process, which reads
        must show. `arrived` is called from the polling thread when there is something to read."""
        self._consumer = Consumer(consumer_config(servers, "_millstream_reader", extra))
        self._written = written
        self._arrived = arrived
        self._feeds: dict[Place, _Feed] = {}
        self._changed: dict[Place, int | None] = {}
        """Assignments to make (from an offset) or to end (None)."""
        self._buffered = 0
        self._waiting = 0
        self._news = threading.Condition()
        self._stopping = False
        self._failure: MillstreamError | None = None
        self._thread = threading.Thread(target=self._poll, name="millstream-kafka", daemon=True)
        self._thread.start()

    def read(self, topic: str, partition: int, offset: int, max_records: int) -> Fetched[pa.Table]:
        """At most `max_records` from `offset` on; waits for some or for the end."""
        place = (topic, partition)
        with self._news:
            feed = self._feed(place, offset)
            if not self._wait_for(place, feed):
                raise UnavailableError(
                    f"Could not read topic '{topic}', partition {partition}, at offset"
                    f" {feed.next}: nothing came for {REQUEST_SECONDS:.0f} seconds",
                    hint="Is the Kafka cluster up and reachable?",
                )
            if self._failure is not None:
                raise self._failure
            if not feed.messages and feed.fault is not None:
                self._drop(place)
                raise feed.fault
            return self._taken(place, feed, max_records)

    def follows(self, place: Place) -> int | None:
        """The offset at which this reader goes on with a partition, None if it does not read it."""
        feed = self._feeds.get(place)
        return None if feed is None else feed.next

    def forget(self, topic: str) -> None:
        """Stop reading a topic that is deleted."""
        with self._news:
            for place in [place for place in self._feeds if place[0] == topic]:
                self._drop(place)

    def close(self) -> None:
        """End the thread and close the consumer."""
        self._stopping = True
        self._thread.join()

    def _feed(self, place: Place, offset: int) -> _Feed:
        feed = self._feeds.get(place)
        if feed is not None and feed.next == offset:
            return feed
        if feed is not None:
            self._drop(place)
        self._feeds[place] = feed = _Feed(offset)
        self._changed[place] = offset
        return feed

    def _drop(self, place: Place) -> None:
        self._buffered -= len(self._feeds.pop(place).messages)
        self._changed[place] = None

    def _wait_for(self, place: Place, feed: _Feed) -> bool:
        self._waiting += 1
        try:
            return self._news.wait_for(lambda: self._ready(place, feed), REQUEST_SECONDS)
        finally:
            self._waiting -= 1

    def _ready(self, place: Place, feed: _Feed) -> bool:
        if feed.messages or feed.fault is not None or self._failure is not None:
            return True
        return feed.end is not None and max(feed.next, feed.end) >= self._written.get(place, 0)

    def _taken(self, place: Place, feed: _Feed, max_records: int) -> Fetched[pa.Table]:
        count = min(max_records, len(feed.messages))
        taken = [feed.messages.popleft() for _ in range(count)]
        self._buffered -= count
        at_end = not feed.messages and feed.end is not None
        if at_end and feed.end is not None:
            feed.next = max(feed.end, feed.next)
        elif taken:
            feed.next = taken[-1].offset() + 1
        batch = table_of(taken)
        return Fetched(*place, batch, count, feed.next, at_end, int(batch.nbytes))

    def _poll(self) -> None:
        assigned: set[Place] = set()
        try:
            while not self._stopping:
                with self._news:
                    changed, self._changed = self._changed, {}
                    full = self._full()
                self._assign(changed, assigned)
                if full:
                    with self._news:
                        self._news.wait_for(lambda: not self._full(), _POLL_SECONDS)
                    continue
                first = self._consumer.poll(_POLL_SECONDS)
                if first is not None:
                    self._take([first, *self._consumer.consume(_AT_ONCE, 0)])
        except KafkaException as error:
            with self._news:
                self._failure = translated(error, "read from Kafka")
                self._news.notify_all()
        finally:
            self._consumer.close()

    def _full(self) -> bool:
        return self._buffered >= _BUFFERED and not self._waiting

    def _assign(self, changed: Mapping[Place, int | None], assigned: set[Place]) -> None:
        """Assign anew from another offset what is assigned already: a seek would leave records
        of the old place in the queue."""
        for place, offset in changed.items():
            if place in assigned:
                self._consumer.incremental_unassign([TopicPartition(*place)])
                assigned.discard(place)
            if offset is not None:
                self._consumer.incremental_assign([TopicPartition(*place, offset)])
                assigned.add(place)

    def _take(self, messages: list[Message]) -> None:
        with self._news:
            for message in messages:
                place = (message.topic(), message.partition())
                feed = self._feeds.get(place)
                if feed is not None and place not in self._changed:
                    self._sort(message, feed)
            self._news.notify_all()
        self._arrived()

    def _sort(self, message: Message, feed: _Feed) -> None:
        error = message.error()
        if error is None:
            feed.messages.append(message)
            self._buffered += 1
            feed.end = None
        elif error.code() == KafkaError._PARTITION_EOF:
            feed.end = message.offset()
        else:
            attempt = f"read topic '{message.topic()}', partition {message.partition()}"
            feed.fault = translated(error, attempt)

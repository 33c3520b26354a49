"""Reads by position, served from what a polling thread has already fetched.

The thread alone touches the consumer, whose calls make every other thread wait. Of each partition
it keeps what came from the last position on that was asked for: who held records back asks again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from millstream.log.kafka.client import REQUEST_SECONDS, translated
from millstream.log.kafka.feed import Feed
from millstream.log.kafka.messages import table_of
from millstream.log.kafka.topics import Topics
from millstream.log.log import Fetched
from millstream.log.log import TopicPartition as Place
from millstream.model.errors import CorruptionError, MillstreamError, UnavailableError

_AT_ONCE = 10_000
"""Messages taken from the client's queue in one call."""
_BUFFERED = 64 << 20
"""Bytes held for all partitions. While somebody waits for a partition that has none, what comes of
the others is held beyond that; the client's own queue is bounded as well."""
_POLL_SECONDS = 0.02
"""How long an idle poll waits, and thus how soon a partition asked for anew is assigned."""


class KafkaReader:
    """One consumer, assigned whatever was asked for. For one who goes on where he left off: a
    position before the last one, or behind what was read, makes a new consumer."""

    def __init__(
        self,
        config: Mapping[str, object],
        topics: Topics,
        written: Mapping[Place, int],
        arrived: Callable[[], None],
    ) -> None:
        """`written`: the offsets after the last records written by this process, which reads
        must show. `arrived` is called from the polling thread when there is something to read."""
        self._config = dict(config)
        self._topics = topics
        self._written = written
        self._arrived = arrived
        self._feeds: dict[Place, Feed] = {}
        self._assigned: set[Place] = set()
        self._retired: set[Place] = set()
        """Places that the consumer of now was assigned and is no more."""
        self._anew = False
        self._waiting = 0
        self._news = threading.Condition()
        self._stopping = False
        self._failure: MillstreamError | None = None
        self._thread = threading.Thread(target=self._run, name="millstream-kafka", daemon=True)
        self._thread.start()

    def read(self, topic: str, partition: int, offset: int, max_records: int) -> Fetched[pa.Table]:
        """At most `max_records` from `offset` on; waits for some or for the end."""
        place = (topic, partition)
        self._topics.check(place)
        try:
            return self._read(place, offset, max_records)
        except CorruptionError as error:
            raise self._topics.out_of_range(place, offset) from error

    def _read(self, place: Place, offset: int, max_records: int) -> Fetched[pa.Table]:
        with self._news:
            feed = self._feed(place, offset)
            if not self._wait_for(place, feed):
                raise UnavailableError(
                    f"Could not read topic '{place[0]}', partition {place[1]}, at offset"
                    f" {offset}: nothing came for {REQUEST_SECONDS:.0f} seconds",
                    hint="Is the Kafka cluster up and reachable?",
                )
            if self._failure is not None:
                raise self._failure
            if not feed.count and feed.fault is not None:
                del self._feeds[place]
                raise feed.fault
            batch = feed.first(max_records)
            at_end = feed.end is not None and batch.num_rows == feed.count
            following = feed.next if at_end else batch["offset"][-1].as_py() + 1
            return Fetched(*place, batch, batch.num_rows, following, at_end, int(batch.nbytes))

    def forget(self, topic: str) -> None:
        """Stop reading a topic that is deleted."""
        with self._news:
            for place in [place for place in self._feeds if place[0] == topic]:
                del self._feeds[place]

    def close(self) -> None:
        """End the thread and close the consumer; idempotent."""
        self._stopping = True
        self._thread.join()

    def _feed(self, place: Place, offset: int) -> Feed:
        feed = self._feeds.get(place)
        if feed is not None and feed.start <= offset <= feed.next:
            feed.pass_to(offset)
            return feed
        if feed is not None or place in self._assigned | self._retired:
            self._anew = True
        self._feeds[place] = feed = Feed(offset)
        return feed

    def _wait_for(self, place: Place, feed: Feed) -> bool:
        def ready() -> bool:
            if feed.count or feed.fault is not None or self._failure is not None:
                return True
            return feed.end is not None and feed.next >= self._written.get(place, 0)

        self._waiting += 1
        try:
            return self._news.wait_for(ready, REQUEST_SECONDS)
        finally:
            self._waiting -= 1

    def _full(self) -> bool:
        held = sum(feed.bytes for feed in self._feeds.values())
        return held >= _BUFFERED and not self._waiting

    def _run(self) -> None:
        try:
            while not self._stopping:
                consumer = Consumer(self._config)
                try:
                    with self._news:
                        self._assigned, self._retired = set(), set()
                        self._anew = False
                    self._poll(consumer)
                finally:
                    consumer.close()
        except KafkaException as error:
            with self._news:
                self._failure = translated(error, "read from Kafka")
                self._news.notify_all()

    def _poll(self, consumer: Consumer) -> None:
        """Poll until told to stop, or to start with a new consumer: one that is assigned a
        partition again, from another offset, may still hand out records of the old place."""
        while not self._stopping:
            with self._news:
                if self._anew:
                    return
                self._assign(consumer)
                if self._full():
                    self._news.wait(_POLL_SECONDS)
                    continue
            first = consumer.poll(_POLL_SECONDS)
            if first is not None:
                self._take([first, *consumer.consume(_AT_ONCE, 0)])

    def _assign(self, consumer: Consumer) -> None:
        gone = self._assigned - self._feeds.keys()
        if gone:
            consumer.incremental_unassign([TopicPartition(*place) for place in gone])
        new = self._feeds.keys() - self._assigned
        if new:
            consumer.incremental_assign(
                [TopicPartition(*place, self._feeds[place].next) for place in new]
            )
        self._assigned = (self._assigned - gone) | new
        self._retired |= gone

    def _take(self, messages: Iterable[Message]) -> None:
        with self._news:
            if self._anew:
                return
            for place, group in groupby(messages, lambda m: (m.topic(), m.partition())):
                feed = self._feeds.get(place)
                if feed is not None and place in self._assigned:
                    _sort(list(group), feed)
            self._news.notify_all()
        self._arrived()


def _sort(messages: list[Message], feed: Feed) -> None:
    """Records, then perhaps the news that the end is reached, or an error."""
    for has_error, group in groupby(messages, lambda message: message.error() is not None):
        if not has_error:
            feed.add(table_of(list(group)))
            continue
        for message in group:
            error = message.error()
            assert error is not None
            if error.code() == KafkaError._PARTITION_EOF:
                feed.reach(message.offset() or 0)
            else:
                attempt = f"read topic '{message.topic()}', partition {message.partition()}"
                feed.fault = translated(error, attempt)

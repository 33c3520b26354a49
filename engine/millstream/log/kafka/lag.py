"""How far a group has read on Kafka, for callers that cannot block."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from queue import Empty, SimpleQueue
from typing import Protocol

from confluent_kafka import Consumer, TopicPartition

from millstream.log.kafka.client import Settings
from millstream.log.log import Lag
from millstream.log.log import TopicPartition as Place

_SECONDS = 2.0
"""How long one response may take."""
_IDLE_SECONDS = 5.0


class AskEnds(Protocol):
    """Requests the ends of partitions and calls `answered` with those that were available, from
    another thread."""

    def __call__(
        self,
        topic_partitions: Collection[Place],
        answered: Callable[[dict[Place, int]], None],
        *,
        committed: bool,
    ) -> None:
        """Does not block."""


class LagOf:
    """One group's lag, measured in a thread of its own, through a consumer that reads nothing and
    is not a member. Both exist only while the lag is requested: a client has several threads, and a
    query without remote tasks requests it only while its tasks are opened."""

    def __init__(
        self, config: Settings, look: AskEnds, *, idle_seconds: float = _IDLE_SECONDS
    ) -> None:
        """`config`: the configuration of the consumer. `idle_seconds`: how long it is kept without
        another request."""
        self._config = config
        self._look = look
        self._idle_seconds = idle_seconds
        self._requests: SimpleQueue[tuple[Place, ...] | None] = SimpleQueue()
        """The partitions whose lag to measure next; None to end."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._open = False
        """Whether a request is waiting or being carried out."""
        self._found: Lag | None = None
        self._closed = False

    def told(self, topic_partitions: Collection[Place]) -> Lag | None:
        """The result since the last call; starts another request if none is open."""
        with self._lock:
            if self._open or self._closed:
                return None
            found, self._found = self._found, None
            if found is None:
                self._open = True
                self._requests.put(tuple(topic_partitions))
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="millstream-lag", daemon=True
                    )
                    self._thread.start()
            return found

    def close(self) -> None:
        """Stop requesting; idempotent. An open request is abandoned."""
        with self._lock:
            self._closed = True
            self._requests.put(None)

    def _run(self) -> None:
        consumer: Consumer | None = None
        try:
            while (wanted := self._next()) is not None:
                found = None
                try:
                    consumer = consumer or Consumer(self._config)
                    found = self._ask(consumer, wanted)
                except Exception as error:
                    # It is requested again.
                    logging.getLogger(__name__).debug("the lag is not known: %s", error)
                finally:
                    with self._lock:
                        self._found, self._open = found, False
        finally:
            if consumer is not None:
                consumer.close()

    def _next(self) -> tuple[Place, ...] | None:
        """The next request; None if the thread has to end."""
        try:
            return self._requests.get(timeout=self._idle_seconds)
        except Empty:
            with self._lock:
                if self._open:
                    return self._requests.get()
                self._thread = None
                return None

    def _ask(self, consumer: Consumer, topic_partitions: tuple[Place, ...]) -> Lag | None:
        """The ends are requested first: the reported positions must not be ahead of them."""
        ends = self._ends(topic_partitions)
        if len(ends) < len(topic_partitions):
            return None
        found = consumer.committed([TopicPartition(*at) for at in topic_partitions], _SECONDS)
        if any(item.error is not None for item in found):
            return None
        reached = {(at.topic, at.partition): at.offset for at in found if at.offset >= 0}
        return Lag(reached, ends)

    def _ends(self, topic_partitions: tuple[Place, ...]) -> dict[Place, int]:
        answered = threading.Event()
        ends: dict[Place, int] = {}

        def told(found: dict[Place, int]) -> None:
            ends.update(found)
            answered.set()

        self._look(topic_partitions, told, committed=True)
        return ends if answered.wait(_SECONDS) else {}

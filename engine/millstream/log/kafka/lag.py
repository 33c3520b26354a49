"""How far a group has read on Kafka, for callers that cannot block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition

from millstream.log.kafka.client import Settings
from millstream.log.log import Lag
from millstream.log.log import TopicPartition as Place

_SECONDS = 2.0
"""How long one response may take."""


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
    is not a member. Both are created on first use."""

    def __init__(self, config: Settings, look: AskEnds) -> None:
        """`config`: the configuration of the consumer."""
        self._config = config
        self._look = look
        self._asking: ThreadPoolExecutor | None = None
        self._open: Future[Lag | None] | None = None
        self._consumer: Consumer | None = None

    def told(self, topic_partitions: Collection[Place]) -> Lag | None:
        """The result since the last call; starts another request if none is open."""
        if self._open is not None and not self._open.done():
            return None
        answer, self._open = self._open, None
        if answer is not None and answer.exception() is None and (lag := answer.result()):
            return lag
        self._asking = self._asking or ThreadPoolExecutor(1, thread_name_prefix="millstream-lag")
        self._open = self._asking.submit(self._ask, tuple(topic_partitions))
        return None

    def close(self) -> None:
        """Stop requesting; idempotent. An open request is abandoned."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.submit(self._leave)
            asking.shutdown(wait=False)

    def _ask(self, topic_partitions: tuple[Place, ...]) -> Lag | None:
        """The ends are requested first: the reported positions must not be ahead of them."""
        ends = self._ends(topic_partitions)
        if len(ends) < len(topic_partitions):
            return None
        self._consumer = self._consumer or Consumer(self._config)
        try:
            found = self._consumer.committed(
                [TopicPartition(*at) for at in topic_partitions], _SECONDS
            )
        except KafkaException:
            return None
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

    def _leave(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

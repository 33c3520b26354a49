"""Turns a consumer's messages into batches, in one of two ways with the same result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from millstream.log.kafka.client import Settings
from millstream.log.kafka.messages import table_of
from millstream.log.log import TopicPartition as Place

_AT_ONCE = 2_000
"""Messages taken from the client's queue in one call; with more, each costs more and stays in
memory."""


@dataclass(frozen=True, slots=True)
class News:
    """An event of a partition instead of a record: an error, or that its end is reached, at
    `offset`."""

    error: KafkaError
    offset: int


PartitionChunk = tuple[Place, pa.Table | News]
"""Consecutive records of one partition as a raw batch, or an event of it. An event of no partition
has a topic without a name."""


class Intake(Protocol):
    """A consumer of batches; for one thread."""

    consumer: Consumer

    def assign(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Read these too, each from its offset on; at most once in the lifetime of the consumer."""
        ...

    def take(self, seconds: float) -> Sequence[PartitionChunk]:
        """The fetched pieces, in the order in which the client returns them; blocks only for the
        first."""
        ...

    def close(self) -> None:
        """Close it together with the consumer."""
        ...


class MessageIntake:
    """Reads the client's `Message` objects; needs no compiled library."""

    def __init__(self, config: Settings) -> None:
        self.consumer = Consumer(config)

    def assign(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """See `Intake`."""
        self.consumer.incremental_assign(list(topic_partitions))

    def take(self, seconds: float) -> Sequence[PartitionChunk]:
        """See `Intake`."""
        first = self.consumer.poll(seconds)
        if first is None:
            return ()
        return list(pieces_of([first, *self.consumer.consume(_AT_ONCE, 0)]))

    def close(self) -> None:
        """See `Intake`."""
        self.consumer.close()


def pieces_of(messages: Sequence[Message]) -> Iterator[PartitionChunk]:
    """Messages as pieces, in their order."""
    for (topic, partition), group in groupby(messages, lambda m: (m.topic(), m.partition())):
        topic_partition = (topic or "", partition or 0)
        for has_news, run in groupby(group, lambda message: message.error() is not None):
            if has_news:
                yield from ((topic_partition, _news(message)) for message in run)
            else:
                yield topic_partition, table_of(list(run))


def _news(message: Message) -> News:
    error = message.error()
    assert error is not None
    return News(error, message.offset() or 0)

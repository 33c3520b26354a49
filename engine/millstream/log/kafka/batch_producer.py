"""Turns batches into records of a producer, in one of two ways with the same result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from millstream.log.kafka.client import Settings
from millstream.log.kafka.messages import produce
from millstream.log.log import Appended
from millstream.log.log import TopicPartition as Place
from millstream.model.errors import MillstreamError, StatementError

_REFUSED = (
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)
"""The broker errors of records that a retry cannot deliver."""
_SHOWN = 40


class BatchProducer(Protocol):
    """A producer of batches; for one thread."""

    @property
    def producer(self) -> Producer:
        """The client that runs the transactions."""
        ...

    def hand(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """Enqueue the batches, each in order, without blocking. Raises StatementError for a record
        that the client refuses."""
        ...

    def settle(self, seconds: float) -> Mapping[Place, int]:
        """Block until everything enqueued last is acknowledged; returns the offset after the last
        record of each partition. Raises StatementError for records that are refused, KafkaException
        when not every record is known to be delivered in time."""
        ...

    @property
    def undelivered(self) -> frozenset[Place]:
        """The partitions with records that were not known to be delivered when `settle` ended."""
        ...

    def close(self) -> None:
        """Release the producer; idempotent."""
        ...


class MessageProducer:
    """Makes one call for each record; needs no compiled library."""

    def __init__(self, config: Settings) -> None:
        self._producer: Producer | None = Producer(config)
        self._handed: Sequence[Appended[pa.Table]] = ()
        self._ends: dict[Place, int] = {}
        self._failed: dict[Place, KafkaError] = {}
        self._open: Counter[Place] = Counter()
        """How many records of each partition are not acknowledged."""
        self.undelivered: frozenset[Place] = frozenset()

    @property
    def producer(self) -> Producer:
        """See `BatchProducer`."""
        if self._producer is None:
            raise RuntimeError("Producer closed")
        return self._producer

    def hand(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """See `BatchProducer`."""
        self._handed = appended
        ends: dict[Place, int] = {}
        failed: dict[Place, KafkaError] = {}
        waiting: Counter[Place] = Counter()
        self._ends, self._failed, self._open = ends, failed, waiting

        def delivered(error: KafkaError | None, message: Message) -> None:
            topic_partition = message.topic() or "", message.partition() or 0
            if error is None:
                waiting[topic_partition] -= 1
                ends[topic_partition] = max(
                    ends.get(topic_partition, 0), (message.offset() or 0) + 1
                )
            else:
                failed.setdefault(topic_partition, error)

        for item in appended:
            topic_partition = item.topic, item.partition
            waiting[topic_partition] += item.batch.num_rows
            try:
                produce(self.producer, *topic_partition, item.batch, delivered)
            except KafkaException as refused:
                if refused.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                    raise
                raise too_large(topic_partition, item.batch) from refused

    def settle(self, seconds: float) -> Mapping[Place, int]:
        """See `BatchProducer`."""
        late = self.producer.flush(seconds)
        self.undelivered = frozenset(place for place, count in self._open.items() if count > 0)
        if late:
            raise not_delivered(None, self._handed, KafkaError._TIMED_OUT)
        for topic_partition, error in self._failed.items():
            raise not_delivered(topic_partition, self._handed, error.code())
        return self._ends

    def close(self) -> None:
        """See `BatchProducer`."""
        self._producer = None


def not_delivered(
    topic_partition: Place | None, appended: Sequence[Appended[pa.Table]], code: int
) -> MillstreamError | KafkaException:
    """The error for records that were not acknowledged, of `topic_partition` if it is known; the
    transaction must be aborted."""
    if topic_partition is not None and code == KafkaError.MSG_SIZE_TOO_LARGE:
        own = [item.batch for item in appended if (item.topic, item.partition) == topic_partition]
        return too_large(topic_partition, pa.concat_tables(own))
    where = (
        ""
        if topic_partition is None
        else f" to topic '{topic_partition[0]}', partition {topic_partition[1]}"
    )
    reason = KafkaError(code).str()
    if code in _REFUSED:
        return StatementError(f"Could not write{where}: {reason}")
    text = f"Not all records{where} were delivered: {reason}"
    return KafkaException(KafkaError(code, text, False, False, True))


def too_large(topic_partition: Place, batch: pa.Table) -> StatementError:
    """The error for a batch with a refused record; it names the largest record."""
    lengths = [pc.fill_null(pc.binary_length(batch[name]), 0) for name in ("key", "value")]
    sizes = pc.add(*lengths)
    row = pc.index(sizes, pc.max(sizes)).as_py()
    key, size = batch["key"][row].as_py(), sizes[row].as_py()
    topic, partition = topic_partition
    shown = repr(key if key is None else key[:_SHOWN])
    return StatementError(
        f"Could not write to topic '{topic}', partition {partition}: a record of {size:,} bytes"
        f" (key {shown}) is larger than Kafka takes",
        hint="Raise 'max.message.bytes' of the topic, or the brokers' and the client's"
        " 'message.max.bytes', or write smaller records.",
    )

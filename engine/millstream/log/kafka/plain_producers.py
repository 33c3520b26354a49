"""The producers for records that may be repeated: they are written outside of transactions.

A transaction costs several requests and a wait for the one before. A plain append is one request,
but no broker checks who makes it: a process that was stopped, and has lost its tasks meanwhile, may
still write what it was about to write. See `Writer.send`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import pyarrow as pa
from confluent_kafka import KafkaException

from millstream.log.kafka.backend import open_batch_producer
from millstream.log.kafka.batch_producer import BatchProducer
from millstream.log.kafka.client import Settings, translated
from millstream.log.kafka.idle_producers import IdleProducers
from millstream.log.log import Appended
from millstream.log.log import TopicPartition as Place


class PlainProducers:
    """As many producers as threads ever appended at the same time; callable from any thread."""

    def __init__(
        self,
        config: Settings,
        check: Callable[[Place], None],
        written: Callable[[Mapping[Place, int]], None],
        seconds: float,
    ) -> None:
        """`check` raises StatementError for a topic partition that does not exist; `written` is
        called with the ends of the partitions. `seconds`: how long to wait for the brokers."""
        self._config: Settings = {**config, "message.timeout.ms": int(seconds * 1000)}
        self._check = check
        self._written = written
        self._seconds = seconds
        self._idle = IdleProducers[BatchProducer]()

    def open_ahead(self) -> None:
        """Open a producer for the first append. A new one gets its id from a broker half a second
        later if it is not connected when it asks for the first time (librdkafka 2.16)."""
        self._idle.give_back(open_batch_producer(self._config))

    def send(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """Append the records of each partition in order; durable and readable when this returns.
        Raises StatementError for a record that is refused, UnavailableError when not all are known
        to be written; in both cases some may be."""
        appended = [item for item in appended if item.batch.num_rows]
        for item in appended:
            self._check((item.topic, item.partition))
        if not appended:
            return
        producer = self._idle.take() or open_batch_producer(self._config)
        try:
            producer.hand(appended)
            ends = producer.settle(self._seconds)
        except BaseException as error:
            _drop(producer)
            if isinstance(error, KafkaException):
                raise translated(error, "append records") from error
            raise
        self._idle.give_back(producer)
        self._written(ends)

    def close(self) -> None:
        """See `IdleProducers`."""
        self._idle.close()


def _drop(producer: BatchProducer) -> None:
    """Give up a producer together with the records that it has not sent: they would come late, when
    their query has written them again."""
    with suppress(KafkaException):
        producer.producer.purge(in_flight=True, blocking=False)
    producer.close()

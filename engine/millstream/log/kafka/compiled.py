"""Consumer and producer by the compiled library, which converts between the client's records and
Arrow buffers without a Python object for each record."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from millstream.log.kafka.batch_producer import not_delivered, too_large
from millstream.log.kafka.client import Settings
from millstream.log.kafka.intake import News, PartitionChunk, pieces_of
from millstream.log.kafka.library import Delivered, Rows, Run, with_plugin
from millstream.log.kafka.messages import wait_for_room
from millstream.log.log import Appended
from millstream.log.log import TopicPartition as Place
from millstream.model.batch import RAW_SCHEMA
from millstream.model.errors import UnavailableError

_AT_ONCE = 10_000


class BatchIntake:
    """Reads with the library, from a queue that receives all records of the assigned partitions.
    Other events stay in the consumer, which calls its callbacks when it is polled."""

    def __init__(self, config: Settings, library: ctypes.CDLL) -> None:
        self._library = library
        library.ms_forget()
        self.consumer = Consumer(with_plugin(config))
        self._handle: int | None = library.ms_open(_AT_ONCE)
        if self._handle is None:
            self.consumer.close()
            raise UnavailableError("Could not show the consumer to the compiled library")
        self._run = Run()

    @property
    def name(self) -> str:
        """The name of the client that is read."""
        return str(self._library.ms_name(self._opened()).decode())

    def assign(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """See `Intake`."""
        for topic_partition in topic_partitions:
            if self._library.ms_expect(
                self._opened(), topic_partition.topic.encode(), topic_partition.partition
            ):
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        self.consumer.incremental_assign(list(topic_partitions))

    def take(self, seconds: float) -> Sequence[PartitionChunk]:
        """See `Intake`."""
        pieces: list[PartitionChunk] = []
        while (message := self.consumer.poll(0)) is not None:
            pieces += pieces_of([message])
        self._library.ms_take(self._opened(), 0 if pieces else int(seconds * 1000))
        run, following = self._run, ctypes.byref(self._run)
        while (found := self._library.ms_next(self._opened(), following)) > 0:
            topic_partition = run.topic.decode(), run.partition
            if run.error:
                error = KafkaError(run.error, run.text.decode(errors="replace"))
                pieces.append((topic_partition, News(error, run.offset)))
            else:
                batch = pa.RecordBatch._import_from_c(ctypes.addressof(run.batch), RAW_SCHEMA)
                pieces.append((topic_partition, pa.Table.from_batches([batch])))
        if found < 0:
            raise MemoryError("Could not read from Kafka: no memory for a batch")
        return pieces

    def close(self) -> None:
        """See `Intake`."""
        if self._handle is not None:
            self._library.ms_close(self._handle)
            self._handle = None
        self.consumer.close()

    def _opened(self) -> int:
        if self._handle is None:
            raise RuntimeError("Consumer closed")
        return self._handle


class CompiledProducer:
    """Writes with the library, which takes whole batches and counts acknowledgements."""

    def __init__(self, config: Settings, library: ctypes.CDLL) -> None:
        self._library = library
        library.ms_forget()
        producer = Producer(with_plugin(config))
        handle: int | None = library.ms_batch_producer()
        if handle is None:
            raise UnavailableError("Could not show the producer to the compiled library")
        self._opened: tuple[Producer, int] | None = producer, handle
        """The handle is valid as long as the producer is referenced."""
        self._handed: Sequence[Appended[pa.Table]] = ()
        self._places: dict[Place, int] = {}
        """Where the library counts what was enqueued last."""
        self.undelivered: frozenset[Place] = frozenset()

    @property
    def producer(self) -> Producer:
        """See `BatchProducer`."""
        return self._open()[0]

    @property
    def name(self) -> str:
        """The name of the client that is written to."""
        return str(self._library.ms_batch_producer_name(self._open()[1]).decode())

    def hand(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """See `BatchProducer`."""
        producer, handle = self._open()
        self._forget(handle)
        self._handed = appended
        for item in appended:
            topic_partition = item.topic, item.partition
            self._places[topic_partition] = self._place(handle, topic_partition)
            table = item.batch
            if not table.schema.equals(RAW_SCHEMA):
                table = table.cast(RAW_SCHEMA)
            for batch in table.to_batches():
                self._append(
                    producer, handle, self._places[topic_partition], topic_partition, batch
                )

    def settle(self, seconds: float) -> Mapping[Place, int]:
        """See `BatchProducer`."""
        producer, handle = self._open()
        producer.flush(seconds)
        try:
            found = {place: self._delivered(handle, at) for place, at in self._places.items()}
            late = {place: one.error for place, one in found.items() if not _complete(one)}
            self.undelivered = frozenset(late)
            for place, error in late.items():
                raise not_delivered(place, self._handed, error or KafkaError._TIMED_OUT)
            return {place: int(one.end) for place, one in found.items()}
        finally:
            self._forget(handle)

    def _forget(self, handle: int) -> None:
        self._handed = ()
        self._places.clear()
        self._library.ms_clear(handle)

    def _place(self, handle: int, topic_partition: Place) -> int:
        index: int = self._library.ms_place(handle, topic_partition[0].encode(), topic_partition[1])
        if index < 0:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC))
        return index

    def _append(
        self,
        producer: Producer,
        handle: int,
        index: int,
        topic_partition: Place,
        batch: pa.RecordBatch,
    ) -> None:
        rows, error = Rows.of(batch), ctypes.c_int()
        at, why = ctypes.byref(rows), ctypes.byref(error)
        taken, since = 0, None
        while taken < batch.num_rows:
            more = self._library.ms_append(handle, index, at, taken, why)
            taken += more
            if error.value == KafkaError.MSG_SIZE_TOO_LARGE:
                raise too_large(topic_partition, pa.Table.from_batches([batch.slice(taken, 1)]))
            if error.value not in (0, KafkaError._QUEUE_FULL):
                raise KafkaException(KafkaError(error.value))
            since = wait_for_room(producer, since) if error.value and not more else None

    def _delivered(self, handle: int, index: int) -> Delivered:
        found = Delivered()
        if self._library.ms_delivered(handle, index, ctypes.byref(found)):
            found.error = found.error or KafkaError._TIMED_OUT
        return found

    def close(self) -> None:
        """See `BatchProducer`."""
        if self._opened is not None:
            self._forget(self._opened[1])
            self._opened = None

    def _open(self) -> tuple[Producer, int]:
        if self._opened is None:
            raise RuntimeError("Producer closed")
        return self._opened


def _complete(delivered: Delivered) -> bool:
    return bool(delivered.delivered == delivered.taken and not delivered.error)

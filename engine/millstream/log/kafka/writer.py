"""The writer of one identity: everything it writes is a transaction of one producer.

Appends without positions are transactions too, so that a fenced writer can write nothing at all,
not even an INSERT.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from millstream.log.kafka.backend import open_batch_producer
from millstream.log.kafka.calls import again
from millstream.log.kafka.client import (
    REQUEST_SECONDS,
    consumer_config,
    fences,
    producer_config,
    translated,
)
from millstream.log.kafka.patience import Patience
from millstream.log.log import Appended, Outcome
from millstream.log.log import TopicPartition as Place
from millstream.model.errors import (
    FencedError,
    MillstreamError,
    StatementError,
    UnavailableError,
)

_FAILURES = (KafkaException, SystemError)
"""The latter when the client has raised a fatal error just before it calls back (2.16)."""


@dataclass(frozen=True, slots=True)
class WriterContext:
    """What a writer needs of its log. `check` raises StatementError for a topic partition that does
    not exist; `committed` is called with the moved positions, `appended` with the ends of the
    written partitions."""

    servers: str
    namespace: str
    extra: Mapping[str, str] = field(repr=False)
    check: Callable[[Place], None]
    committed: Callable[[str, Collection[Place]], None]
    appended: Callable[[Mapping[Place, int]], None]


@dataclass(frozen=True, slots=True)
class Seat:
    """A writer's membership in a group. The brokers refuse positions of other clients.

    `credential`: the current membership credential, None without one; the writer then aborts its
    transaction. `lease`: a position that can always be moved, so that the brokers check a
    transaction without other positions too.
    """

    group: str
    credential: Callable[[], object | None]
    lease: Place


class KafkaWriter:
    """One transactional producer; opening it has fenced the earlier ones of its identity."""

    def __init__(
        self,
        identity: str,
        context: WriterContext,
        seat: Seat | None = None,
        *,
        patience: Patience,
    ) -> None:
        """`seat`: membership in a group; without it, groups must have no members."""
        self.identity = identity
        self._context = context
        self._seat = seat
        self._patience = patience
        name = context.namespace + identity
        config = producer_config(
            context.servers, name, context.extra, self._patience.transaction_seconds
        )
        self._batch_producer = open_batch_producer(config)
        self._producer: Producer | None = self._batch_producer.producer
        self._groups: dict[str, object] = {}
        """The group metadata of a transaction."""
        self._fenced = False
        try:
            # Without a connection the client's first attempt fails, and the next one comes half a
            # second later.
            self._producer.list_topics(timeout=REQUEST_SECONDS)
            self._producer.init_transactions(REQUEST_SECONDS * 2)
        except KafkaException as error:
            raise translated(error, f"open the writer '{identity}'") from error

    def append(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """Durable and readable when this returns; raises UnavailableError when that is not
        known."""
        outcome = self._transaction(None, appended, {})
        if outcome is Outcome.ABORTED:
            # The client (2.16) drops the transaction that follows one with refused records.
            outcome = self._transaction(None, appended, {})
        if outcome is not Outcome.COMMITTED:
            raise UnavailableError(
                f"Could not append as '{self.identity}': the outcome of the write is"
                f" {outcome.value}",
                hint="Look whether the records are there before trying again.",
            )

    def transact(
        self,
        group: str,
        appended: Sequence[Appended[pa.Table]],
        positions: Mapping[Place, int],
    ) -> Outcome:
        """Records and positions, both or neither."""
        return self._transaction(group if positions else None, appended, positions)

    def close(self) -> None:
        """Give up the identity; idempotent."""
        self._producer = None
        self._batch_producer.close()

    def _transaction(
        self,
        group: str | None,
        appended: Sequence[Appended[pa.Table]],
        positions: Mapping[Place, int],
    ) -> Outcome:
        producer = self._open_producer()
        for topic_partition in (*((item.topic, item.partition) for item in appended), *positions):
            self._context.check(topic_partition)
        appended = [item for item in appended if item.batch.num_rows]
        if not appended and group is None:
            return Outcome.COMMITTED
        if self._seat is not None:
            group, positions = self._seat.group, positions or {self._seat.lease: 0}
        ends: dict[Place, int] = {}
        try:
            producer.begin_transaction()
            if not self._send(producer, appended, ends, group, positions):
                return self._abort(producer)
        except _FAILURES as error:
            return self._given_up(producer, error)
        outcome = self._committed(producer)
        if outcome is Outcome.COMMITTED:
            if group is not None:
                self._context.committed(self._context.namespace + group, positions)
            self._context.appended(ends)
        return outcome

    def _open_producer(self) -> Producer:
        if self._fenced:
            raise self._fencing()
        if self._producer is None:
            raise UnavailableError(f"The writer '{self.identity}' is closed")
        return self._producer

    def _fencing(self) -> FencedError:
        self._fenced = True
        return FencedError(f"A newer writer of '{self.identity}' exists")

    def _send(
        self,
        producer: Producer,
        appended: Sequence[Appended[pa.Table]],
        ends: dict[Place, int],
        group: str | None,
        positions: Mapping[Place, int],
    ) -> bool:
        """Write records and positions together; returns whether this writer may move the
        positions."""
        seconds = self._patience.commit_seconds
        try:
            self._batch_producer.hand(appended)
            try:
                return group is None or self._send_positions(producer, group, positions)
            finally:
                # An abort while records of the transaction are in flight was observed to cause a
                # fatal error (2.16).
                ends.update(self._batch_producer.settle(seconds))
        except StatementError:
            producer.flush(seconds)
            again(lambda: producer.abort_transaction(REQUEST_SECONDS), seconds)
            raise

    def _send_positions(
        self, producer: Producer, group: str, positions: Mapping[Place, int]
    ) -> bool:
        """Move the positions; returns whether this writer may do so."""
        metadata = self._credential(group)
        if metadata is None:
            return False
        offsets = [
            TopicPartition(*topic_partition, offset)
            for topic_partition, offset in positions.items()
        ]
        again(
            lambda: producer.send_offsets_to_transaction(offsets, metadata, REQUEST_SECONDS),
            min(REQUEST_SECONDS, self._patience.commit_seconds),
        )
        return True

    def _credential(self, group: str) -> object | None:
        if self._seat is not None:
            return self._seat.credential()
        if group not in self._groups:
            self._groups[group] = self._metadata(group)
        return self._groups[group]

    def _metadata(self, group: str) -> object:
        """For a group without members, the writer's epoch fences. Only a consumer can create this
        object, which keeps no reference to it."""
        context = self._context
        name = context.namespace + group
        member = Consumer(consumer_config(context.servers, name, context.extra))
        try:
            return member.consumer_group_metadata()
        finally:
            member.close()

    def _committed(self, producer: Producer) -> Outcome:
        try:
            again(
                lambda: producer.commit_transaction(REQUEST_SECONDS),
                self._patience.commit_seconds,
            )
        except _FAILURES as error:
            fault = _cause(producer, error)
            if fault.txn_requires_abort() or fences(fault):
                return self._given_up(producer, error)
            return Outcome.UNKNOWN
        except UnavailableError:
            return Outcome.UNKNOWN
        return Outcome.COMMITTED

    def _given_up(self, producer: Producer, error: KafkaException | SystemError) -> Outcome:
        """Nothing becomes visible of a transaction that could not be sent or that the coordinator
        refused."""
        fault = _cause(producer, error)
        if fences(fault):
            raise self._fencing() from error
        if fault.txn_requires_abort():
            return self._abort(producer)
        failure: MillstreamError = translated(fault, f"write as '{self.identity}'")
        if fault.fatal():
            return Outcome.UNKNOWN
        raise failure from error

    def _abort(self, producer: Producer) -> Outcome:
        try:
            again(
                lambda: producer.abort_transaction(REQUEST_SECONDS), self._patience.commit_seconds
            )
        except _FAILURES as failed:
            if fences(_cause(producer, failed)):
                raise self._fencing() from failed
            return Outcome.UNKNOWN
        except UnavailableError:
            return Outcome.UNKNOWN
        return Outcome.ABORTED


def _cause(producer: Producer, error: KafkaException | SystemError) -> KafkaError:
    """The cause of an error; after a fatal one, some calls report only that there was one."""
    fault: KafkaError | None = error.args[0] if isinstance(error, KafkaException) else None
    if fault is not None and fault.code() != KafkaError._FATAL:
        return fault
    try:
        producer.begin_transaction()
    except KafkaException as named:
        cause: KafkaError = named.args[0]
        return cause
    raise error

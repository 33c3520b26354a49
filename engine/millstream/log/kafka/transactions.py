"""The transactions of one producer, each for one writer or for several together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from millstream.log.fenced_rounds import RefusedCredentialError
from millstream.log.kafka.backend import open_batch_producer
from millstream.log.kafka.calls import HANGING_SECONDS, again, repeated, within
from millstream.log.kafka.client import REQUEST_SECONDS, fences, producer_config, translated
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

_OUTDATED = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
        # Of the member, not of the producer: the transaction is still to be aborted.
        KafkaError.FENCED_INSTANCE_ID,
    }
)
"""Why the brokers refuse the credential of a member."""

TOGETHER_SECONDS = 4.0
"""How long the entries of a transaction wait for one whose brokers do not answer. It is tried again
alone, with more patience."""


@dataclass(frozen=True, slots=True)
class WriterContext:
    """What a writer needs of its log. `check` raises StatementError for a topic partition that does
    not exist; `committed` is called with the moved positions, `appended` with the ends of the
    written partitions. `outsider`: the credential for moving the positions of a group, given with
    the namespace, that has no members; its writers are fenced by their epochs alone."""

    servers: str
    namespace: str
    extra: Mapping[str, str] = field(repr=False)
    check: Callable[[Place], None]
    committed: Callable[[str, Collection[Place]], None]
    appended: Callable[[Mapping[Place, int]], None]
    outsider: Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Entry:
    """What one writer contributes to a transaction: records, and where `group` is given also its
    positions, with the `credential` (the client's group metadata) that names the group."""

    appended: Sequence[Appended[pa.Table]]
    group: str | None = None
    positions: Mapping[Place, int] = field(default_factory=dict)
    credential: object | None = field(default=None, repr=False)

    @property
    def places(self) -> frozenset[Place]:
        """The partitions that it writes to."""
        return frozenset((item.topic, item.partition) for item in self.appended)

    @property
    def empty(self) -> bool:
        """Whether nothing of it has to be written."""
        return self.group is None and not any(item.batch.num_rows for item in self.appended)


@dataclass(frozen=True, slots=True)
class MemberCredential:
    """What shows that a process is a member of the group of its service: `shown`, the client's
    group metadata, and a `position` of that group that can be moved for this."""

    position: Place
    shown: bytes = field(repr=False)


class RefusedError(Exception):
    """Some of several entries cannot be carried out now; nothing was written."""

    def __init__(self, entries: Sequence[Entry], reason: str) -> None:
        super().__init__(reason)
        self.entries = entries


class Transactions:
    """One transactional producer, for one thread at a time; opening it has fenced the earlier ones
    of its identity and ended their transactions."""

    def __init__(self, identity: str, context: WriterContext, patience: Patience) -> None:
        self.identity = identity
        self.in_doubt = False
        """Whether a transaction may still be open: only another producer of the same identity can
        end it."""
        self._context = context
        self._patience = patience
        name = context.namespace + identity
        config = producer_config(
            context.servers, name, context.extra, self._patience.transaction_seconds
        )
        self._batch_producer = open_batch_producer(config)
        self._producer: Producer | None = self._batch_producer.producer
        self._fenced = False
        self._drops_next = False
        try:
            # Without a connection the client's first attempt fails, and the next one comes half a
            # second later.
            self._producer.list_topics(timeout=REQUEST_SECONDS)
            self._producer.init_transactions(REQUEST_SECONDS * 2)
        except KafkaException as error:
            raise translated(error, f"open the writer '{identity}'") from error

    def carry_out(
        self, entries: Sequence[Entry], credential: MemberCredential | None = None
    ) -> Outcome:
        """Make the records readable and move the positions of all entries, or nothing of it. With a
        `credential`, only if the brokers accept that.

        Raises, with nothing written, StatementError for a record or a partition that is refused,
        RefusedError for some entries among several, RefusedCredentialError, and FencedError when a
        newer producer of the identity exists.
        """
        producer = self._open_producer()
        for entry in entries:
            for topic_partition in (*entry.places, *entry.positions):
                self._context.check(topic_partition)
        entries = [entry for entry in entries if not entry.empty]
        if not entries:
            return Outcome.COMMITTED
        dropped, self._drops_next = self._drops_next, False
        outcome = self._attempt(producer, entries, credential)
        if outcome is Outcome.ABORTED and dropped:
            outcome = self._attempt(producer, entries, credential)
        return outcome

    def close(self) -> None:
        """Give up the identity; idempotent."""
        self._producer = None
        self._batch_producer.close()

    def _open_producer(self) -> Producer:
        if self._fenced:
            raise self._fencing()
        if self._producer is None:
            raise UnavailableError(f"The writer '{self.identity}' is closed")
        return self._producer

    def _fencing(self) -> FencedError:
        self._fenced = True
        return FencedError(f"A newer writer of '{self.identity}' exists")

    def _attempt(
        self, producer: Producer, entries: Sequence[Entry], credential: MemberCredential | None
    ) -> Outcome:
        self.in_doubt = True
        ends: dict[Place, int] = {}
        try:
            producer.begin_transaction()
            self._send(producer, entries, credential, ends)
        except _FAILURES as error:
            return self._given_up(producer, error)
        except (RefusedError, RefusedCredentialError):
            if self._abort(producer) is Outcome.ABORTED:
                raise
            return Outcome.UNKNOWN
        outcome = self._committed(producer)
        if outcome is Outcome.COMMITTED:
            self.in_doubt = False
            for entry in entries:
                if entry.group is not None:
                    self._context.committed(self._context.namespace + entry.group, entry.positions)
            self._context.appended(ends)
        return outcome

    def _send(
        self,
        producer: Producer,
        entries: Sequence[Entry],
        credential: MemberCredential | None,
        ends: dict[Place, int],
    ) -> None:
        """Write records and positions together."""
        seconds = self._patience.commit_seconds
        if len(entries) > 1:
            seconds = min(seconds, TOGETHER_SECONDS)
        appended = [item for entry in entries for item in entry.appended if item.batch.num_rows]
        try:
            self._batch_producer.hand(appended)
            self._send_all_positions(producer, entries, credential, seconds)
            ends.update(self._settled(entries, seconds))
        except StatementError:
            producer.flush(seconds)
            again(lambda: producer.abort_transaction(REQUEST_SECONDS), seconds)
            self.in_doubt = False
            # The client (2.16) drops the transaction that follows one with refused records.
            self._drops_next = True
            raise

    def _settled(self, entries: Sequence[Entry], seconds: float) -> Mapping[Place, int]:
        try:
            return self._batch_producer.settle(seconds)
        except KafkaException as error:
            late = self._batch_producer.undelivered
            refused = [entry for entry in entries if not late.isdisjoint(entry.places)]
            if not 0 < len(refused) < len(entries) or fences(error.args[0]):
                raise
            raise RefusedError(refused, str(error)) from error

    def _send_all_positions(
        self,
        producer: Producer,
        entries: Sequence[Entry],
        credential: MemberCredential | None,
        seconds: float,
    ) -> None:
        moving = [entry for entry in entries if entry.group is not None]

        def send() -> None:
            for entry in moving:
                self._send_positions(producer, entry, seconds, alone=len(entries) == 1)
            # Last: the next owner of a task waits for positions that are pending before its group
            # has changed.
            if credential is not None:
                _show(producer, credential, seconds)

        try:
            if moving or credential is not None:
                within(send, HANGING_SECONDS)
        except Exception:
            # An abort while records of the transaction are in flight was observed to cause a fatal
            # error (2.16). Those that were not sent yet are purged by the client, which is no
            # other failure.
            with suppress(KafkaException):
                self._batch_producer.settle(seconds)
            raise

    def _send_positions(
        self, producer: Producer, entry: Entry, seconds: float, *, alone: bool
    ) -> None:
        offsets = [
            TopicPartition(*topic_partition, offset)
            for topic_partition, offset in entry.positions.items()
        ]
        seconds = min(REQUEST_SECONDS, seconds)
        try:
            repeated(
                lambda: producer.send_offsets_to_transaction(offsets, entry.credential, seconds),
                seconds,
            )
        except KafkaException as error:
            fault = _cause(producer, error)
            if alone or fault.fatal() or fences(fault):
                raise
            raise RefusedError([entry], str(fault)) from error

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
        self.in_doubt = False
        return Outcome.ABORTED


def _show(producer: Producer, credential: MemberCredential, seconds: float) -> None:
    """Have the brokers check the credential of the transaction: they move a position with it."""
    seconds = min(REQUEST_SECONDS, seconds)
    moved = [TopicPartition(*credential.position, 0)]
    try:
        repeated(
            lambda: producer.send_offsets_to_transaction(moved, credential.shown, seconds), seconds
        )
    except KafkaException as error:
        fault = _cause(producer, error)
        if fault.code() in _OUTDATED and not fault.fatal():
            raise RefusedCredentialError(str(fault)) from error
        raise


def _cause(producer: Producer, error: KafkaException | SystemError) -> KafkaError:
    """The cause of an error; after a fatal one, some calls report only that there was one, or that
    the producer cannot do what it was called for."""
    fault: KafkaError | None = error.args[0] if isinstance(error, KafkaException) else None
    if fault is not None and fault.code() not in (KafkaError._FATAL, KafkaError._STATE):
        return fault
    try:
        producer.begin_transaction()
    except KafkaException as named:
        cause: KafkaError = named.args[0]
        return cause
    raise error

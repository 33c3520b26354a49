"""A member of a query's group on Kafka: a consumer that reads nothing, of the lease topic.

The broker that coordinates the group assigns the partitions of that topic. It refuses positions
with the credential of a client that is no longer a member, or has not joined since the last
rebalance. Four rules make that sufficient:

* the thread that runs the callbacks reads the credential anew for each transaction, and checks only
  afterwards whether the assignment was lost;
* a credential is valid only while it names the member that received the assignment. A member that
  the brokers have removed joins again under a new id. If it has a static name and was already
  joining again, it does so without reporting that all was lost (2.16): under the new id it could
  commit tasks that are assigned to others meanwhile. In this case everything counts as lost, and
  another consumer joins;
* a credential without a member (the client has just learned that it was removed) is never used:
  with an empty one the broker treats the transaction as that of a group without members;
* a task is given up only when it is committed, or counted as lost before.

All calls into the consumer come from one thread: each blocks the others (2.16).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from millstream.log.kafka.client import SETTLE_SECONDS, Settings, translated
from millstream.log.kafka.credentials import cause_of, member_of
from millstream.log.kafka.lag import LagOf
from millstream.log.kafka.member_writer import MemberWriter, PooledWriter
from millstream.log.kafka.plain_producers import PlainProducers
from millstream.log.kafka.producer_pool import ProducerPool
from millstream.log.kafka.writer import KafkaWriter, Seat
from millstream.log.log import Assignment, Lag
from millstream.log.log import TopicPartition as Place
from millstream.model.errors import FencedError, MillstreamError, StatementError

_LOOK_SECONDS = 0.1
"""How soon a change of the group is noticed."""
_CREDENTIAL_SECONDS = 5.0
_CLOSE_SECONDS = 5.0
_AGAIN_SECONDS = 1.0
_SUCCESSOR_SECONDS = 4.0
"""How soon the other processes detect a running process."""
_RELEASE_SECONDS = 60.0
"""How long a name that the broker considers in use may belong to an earlier process of this
instance."""
_WRONG = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


class OpenWriter(Protocol):
    """Opens a writer that belongs to a member of a group."""

    def __call__(self, seat: Seat, size: int) -> KafkaWriter:
        """`size`: as of `Log.writer`. Raises UnavailableError."""


class KafkaMember:
    """`Member` of one group; a thread of its own follows the group."""

    def __init__(
        self,
        group: str,
        leases: str,
        config: Settings,
        open_writer: OpenWriter,
        pool: ProducerPool,
        plain: PlainProducers,
        moved: Callable[[], None],
        superseded: Callable[[], bool],
        lag: LagOf,
    ) -> None:
        """`leases`: the topic. `open_writer`: for writers of large transactions, which do not use
        the `pool`; `plain`: for what needs no transaction. `moved` is called, from the thread,
        whenever the assignment changes. `superseded`: see `Membership`."""
        self._group = group
        self._leases = leases
        self._config = config
        self._open_writer = open_writer
        self._pool = pool
        self._plain = plain
        self._moved = moved
        self._superseded = superseded
        self._lag = lag
        self._news = threading.Condition()
        self._assignment = Assignment(0, frozenset())
        self._settled = 0
        self._asked = 0
        self._answered = 0
        self._credential: bytes | None = None
        self._name = b""
        """The id of the member that received the assignment."""
        self._renamed = False
        """Whether the client now has another member id and has not reported the assignment as lost.
        """
        self._closing = False
        self._leaving = False
        """Closing a consumer does not block."""
        self._fault: MillstreamError | None = None
        self._unreleased_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="millstream-member", daemon=True)
        self._thread.start()

    def assignment(self) -> Assignment:
        """The current assignment of this member; raises FencedError when another process has its
        name."""
        if self._fault is not None:
            raise self._fault
        return self._assignment

    def settled(self, epoch: int) -> None:
        """Acknowledge the assignment of `epoch`: nothing else is held any more."""
        with self._news:
            self._settled = max(self._settled, epoch)
            self._news.notify_all()

    def writer(self, epoch: int, *, size: int = 0) -> MemberWriter | PooledWriter:
        """The writer for the assignment of `epoch`."""
        if self._fault is not None:
            raise self._fault
        seat = Seat(self._group, lambda: self._ask(epoch), (self._leases, 0))
        if size:
            return MemberWriter(self, epoch, self._open_writer(seat, size))
        return PooledWriter(self, epoch, seat, self._pool, self._plain)

    def lag(self, topic_partitions: Collection[Place]) -> Lag | None:
        """How far the whole group has read, if that was measured since the last call."""
        return self._lag.told(topic_partitions)

    def close(self) -> None:
        """Leave the group; idempotent. If the brokers do not respond, the thread is abandoned after
        a while."""
        self._lag.close()
        with self._news:
            self._closing = True
            self._news.notify_all()
        self._thread.join(_CLOSE_SECONDS)

    def holds(self, epoch: int) -> bool:
        """Whether the assignment of `epoch` has not been lost. Raises FencedError as `assignment`
        does."""
        return not self._closing and self.assignment().lost <= epoch

    def _ask(self, epoch: int) -> Callable[[], bytes | None]:
        """Ask for the credential with which this member may commit the assignment of `epoch` now;
        the result waits for it."""
        with self._news:
            self._asked += 1
            asked = self._asked
            self._news.notify_all()

        def answer() -> bytes | None:
            with self._news:
                answered = self._news.wait_for(
                    lambda: self._answered >= asked or self._closing, _CREDENTIAL_SECONDS
                )
                found = self._credential
            return found if answered and self._fault is None and self.holds(epoch) else None

        return answer

    # ---- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing and not isinstance(self._fault, FencedError):
            self._leaving = self._renamed = False
            try:
                consumer = Consumer(self._config)
                try:
                    self._follow(consumer)
                except KafkaException as error:
                    self._fail(error.args[0])
                finally:
                    self._leaving = True
                    self._lose()
                    consumer.close()
            except KafkaException as error:
                self._fail(error.args[0])
            except StatementError as error:
                self._fault = error
            except SystemError:
                # The client (2.16) raises it for an error that comes while a callback of its own
                # fails. The assignment is lost already; a new consumer joins the group.
                logging.getLogger("millstream").debug("a consumer broke down", exc_info=True)
            with self._news:
                self._news.wait_for(lambda: self._closing, _AGAIN_SECONDS)

    def _follow(self, consumer: Consumer) -> None:
        """Until it is closed, the client fails for good, or its member id changes."""
        consumer.subscribe(
            [self._leases],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        while not self._closing and not self._renamed:
            message = consumer.poll(0)
            if message is not None and (fault := message.error()) is not None:
                if fault.code() == KafkaError._FATAL:
                    raise KafkaException(cause_of(fault))
                if fault.code() in _WRONG:
                    self._fail(fault)
            with self._news:
                self._news.wait_for(self._wanted, _LOOK_SECONDS)
            self._answer(consumer)

    def _wanted(self) -> bool:
        return self._closing or self._asked > self._answered

    def _answer(self, consumer: Consumer) -> None:
        """Return the credential to waiting callers. The member id is checked even without any."""
        asked = self._asked
        shown = self._shown(consumer)
        with self._news:
            if shown is not None:
                self._fault = None
            self._credential = shown
            self._answered = asked
            self._news.notify_all()

    def _shown(self, consumer: Consumer) -> bytes | None:
        """The current credential, if it belongs to the member that received the assignment."""
        shown: bytes = consumer.consumer_group_metadata()
        name = member_of(shown)
        if name and name != self._name and self._assignment.partitions:
            self._renamed = True
            self._lose()
        return shown if name and not self._renamed else None

    def _on_assign(self, consumer: Consumer, given: Sequence[TopicPartition]) -> None:
        self._unreleased_since = None
        shown = self._shown(consumer)
        consumer.incremental_assign([TopicPartition(at.topic, at.partition, 0) for at in given])
        if given and not self._renamed:
            if not self._assignment.partitions:
                self._name = member_of(shown) if shown else b""
            consumer.pause(list(given))
            self._move(self._assignment.partitions | _numbers(given))

    def _on_revoke(self, consumer: Consumer, taken: Sequence[TopicPartition]) -> None:
        """Held tasks are committed by other threads meanwhile, with credentials from here."""
        self._shown(consumer)
        kept = self._assignment.partitions - _numbers(taken)
        if kept != self._assignment.partitions:
            self._give_up(consumer, kept)
        consumer.incremental_unassign(list(taken))

    def _give_up(self, consumer: Consumer, kept: frozenset[int]) -> None:
        epoch = self._move(kept)
        deadline = time.monotonic() + SETTLE_SECONDS
        while not self._done(epoch) and time.monotonic() < deadline:
            with self._news:
                self._news.wait_for(lambda: self._done(epoch) or self._wanted(), _LOOK_SECONDS)
            self._answer(consumer)
        if self._settled < epoch:
            self._move(kept, lost=True)

    def _done(self, epoch: int) -> bool:
        return self._leaving or self._closing or self._settled >= epoch

    def _on_lost(self, consumer: Consumer, taken: Sequence[TopicPartition]) -> None:
        self._lose()
        consumer.incremental_unassign(list(taken))

    def _lose(self) -> None:
        if self._assignment.partitions:
            self._move(frozenset(), lost=True)

    def _move(self, partitions: frozenset[int], *, lost: bool = False) -> int:
        epoch = self._assignment.epoch + 1
        with self._news:
            self._assignment = Assignment(
                epoch, partitions, epoch if lost else self._assignment.lost
            )
            self._news.notify_all()
        self._moved()
        return epoch

    def _fail(self, fault: KafkaError) -> None:
        """The error that the driver gets when it reads the assignment."""
        unreleased = fault.code() == KafkaError.UNRELEASED_INSTANCE_ID
        if unreleased and not self._unreleased_for_long():
            return
        failure = translated(fault, f"take part in the group '{self._group}'")
        if unreleased or isinstance(failure, FencedError):
            self._lose()
            if not unreleased and not self._has_successor():
                return
            name = self._config.get("group.instance.id")
            failure = FencedError(
                f"Another process runs with instance id '{name}'",
                hint="Give each process an instance id of its own, or none.",
            )
        self._fault = failure
        self._moved()

    def _has_successor(self) -> bool:
        """Whether another process has our name. A join request that was sent twice, because the
        response was slow, also makes the brokers report a second process."""
        deadline = time.monotonic() + _SUCCESSOR_SECONDS
        while not self._closing and time.monotonic() < deadline:
            if self._superseded():
                return True
            with self._news:
                self._news.wait(_LOOK_SECONDS)
        return False

    def _unreleased_for_long(self) -> bool:
        """The broker may not have detected yet that an earlier process of this name has ended."""
        now = time.monotonic()
        self._unreleased_since = self._unreleased_since or now
        return now > self._unreleased_since + _RELEASE_SECONDS


def _numbers(topic_partitions: Collection[TopicPartition]) -> frozenset[int]:
    return frozenset(topic_partition.partition for topic_partition in topic_partitions)

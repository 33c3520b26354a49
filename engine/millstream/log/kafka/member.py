"""A member of a query's group on Kafka: a consumer that reads nothing, of the lease topic.

The broker that coordinates the group says who holds which partitions of that topic, and refuses
positions that come with the credential of somebody who is not a member any more, or not since the
last change. Four things make that enough:

* the credential is taken for each transaction anew, by the thread that the callbacks run in, and
  only after that is looked whether the claim was lost;
* it counts only while it names the member that the claim was given to. One that the brokers have
  thrown out joins again by a new name, and where it has a static one, and was already joining
  again, it does so without saying that all was lost (2.16): by the new name it would be let
  commit what others have been given meanwhile. Then all is lost, and another consumer takes part;
* a credential without a member (the client has just heard that it was thrown out) is never used:
  with an empty one the broker takes the transaction for that of a group without members;
* what is to be given up is given up only when it is settled, or counted as lost before.

All calls into the consumer come from one thread: each makes the others wait (2.16).
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
from millstream.log.kafka.member_writer import MemberWriter
from millstream.log.kafka.writer import KafkaWriter, Seat
from millstream.log.log import TopicPartition as Place
from millstream.log.membership import Assignment, Lag
from millstream.model.errors import FencedError, MillstreamError, StatementError

_LOOK_SECONDS = 0.1
"""How soon a change of the group is noticed."""
_CREDENTIAL_SECONDS = 5.0
_CLOSE_SECONDS = 5.0
_AGAIN_SECONDS = 1.0
_SUCCESSOR_SECONDS = 4.0
"""How soon a process that is at work has been heard of by the others."""
_RELEASE_SECONDS = 60.0
"""How long a name that the broker believes in use may be that of an earlier process of ours."""
_WRONG = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


class OpenWriter(Protocol):
    """Opens a writer with a place in a group."""

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
        moved: Callable[[], None],
        superseded: Callable[[], bool],
        lag: LagOf,
    ) -> None:
        """`leases`: the topic. `moved` is called, from the thread, whenever the claim was.
        `superseded`: see `Membership`."""
        self._group = group
        self._leases = leases
        self._config = config
        self._open_writer = open_writer
        self._moved = moved
        self._superseded = superseded
        self._lag = lag
        self._news = threading.Condition()
        self._claim = Assignment(0, frozenset())
        self._settled = 0
        self._asked = 0
        self._answered = 0
        self._credential: bytes | None = None
        self._name = b""
        """Of the member that the claim was given to."""
        self._renamed = False
        """Whether the client goes by another one now, and has not said that the claim is lost."""
        self._closing = False
        self._leaving = False
        """Nothing is waited for while a consumer is closed."""
        self._fault: MillstreamError | None = None
        self._unreleased_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="millstream-member", daemon=True)
        self._thread.start()

    def claim(self) -> Assignment:
        """What this member is to hold now; FencedError when another process has its name."""
        if self._fault is not None:
            raise self._fault
        return self._claim

    def settled(self, epoch: int) -> None:
        """Nothing is held any more that is not in the claim of `epoch`."""
        with self._news:
            self._settled = max(self._settled, epoch)
            self._news.notify_all()

    def writer(self, epoch: int, *, size: int = 0) -> MemberWriter:
        """The appending side for what was claimed at `epoch`."""
        if self._fault is not None:
            raise self._fault
        seat = Seat(self._group, lambda: self._credential_for(epoch), (self._leases, 0))
        return MemberWriter(self, epoch, self._open_writer(seat, size))

    def lag(self, topic_partitions: Collection[Place]) -> Lag | None:
        """How far the whole group has come, if that was found out since this was asked last."""
        return self._lag.told(topic_partitions)

    def close(self) -> None:
        """Leave the group; idempotent. Where the brokers do not answer, the thread is left to
        itself after a while."""
        self._lag.close()
        with self._news:
            self._closing = True
            self._news.notify_all()
        self._thread.join(_CLOSE_SECONDS)

    def holds(self, epoch: int) -> bool:
        """Whether what was claimed at `epoch` has not been lost. FencedError as `claim`."""
        return not self._closing and self.claim().lost <= epoch

    def _credential_for(self, epoch: int) -> bytes | None:
        """What shows now that this member may commit what it claimed at `epoch`."""
        with self._news:
            self._asked += 1
            asked = self._asked
            self._news.notify_all()
            answered = self._news.wait_for(
                lambda: self._answered >= asked or self._closing, _CREDENTIAL_SECONDS
            )
            found = self._credential
        return found if answered and self._fault is None and self.holds(epoch) else None

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
        """Until it is closed, or the client can do no more, or is another member than it was."""
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
        """Tell whoever has asked; that nobody did is no reason not to look who this is now."""
        asked = self._asked
        shown = self._shown(consumer)
        with self._news:
            if shown is not None:
                self._fault = None
            self._credential = shown
            self._answered = asked
            self._news.notify_all()

    def _shown(self, consumer: Consumer) -> bytes | None:
        """The credential of now, if it is of the member that the claim was given to."""
        shown: bytes = consumer.consumer_group_metadata()
        name = member_of(shown)
        if name and name != self._name and self._claim.partitions:
            self._renamed = True
            self._lose()
        return shown if name and not self._renamed else None

    def _on_assign(self, consumer: Consumer, given: Sequence[TopicPartition]) -> None:
        self._unreleased_since = None
        shown = self._shown(consumer)
        consumer.incremental_assign([TopicPartition(at.topic, at.partition, 0) for at in given])
        if given and not self._renamed:
            if not self._claim.partitions:
                self._name = member_of(shown) if shown else b""
            consumer.pause(list(given))
            self._move(self._claim.partitions | _numbers(given))

    def _on_revoke(self, consumer: Consumer, taken: Sequence[TopicPartition]) -> None:
        """What is held is committed by others meanwhile, with credentials from here."""
        self._shown(consumer)
        kept = self._claim.partitions - _numbers(taken)
        if kept != self._claim.partitions:
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
        if self._claim.partitions:
            self._move(frozenset(), lost=True)

    def _move(self, partitions: frozenset[int], *, lost: bool = False) -> int:
        epoch = self._claim.epoch + 1
        with self._news:
            self._claim = Assignment(epoch, partitions, epoch if lost else self._claim.lost)
            self._news.notify_all()
        self._moved()
        return epoch

    def _fail(self, fault: KafkaError) -> None:
        """What the driver hears when it asks for the claim."""
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
        """Whether it is another process that has our name. A request to join that was sent twice,
        because the answer took long, makes the brokers take us for two."""
        deadline = time.monotonic() + _SUCCESSOR_SECONDS
        while not self._closing and time.monotonic() < deadline:
            if self._superseded():
                return True
            with self._news:
                self._news.wait(_LOOK_SECONDS)
        return False

    def _unreleased_for_long(self) -> bool:
        """The broker may not know yet that an earlier process of this name has ended."""
        now = time.monotonic()
        self._unreleased_since = self._unreleased_since or now
        return now > self._unreleased_since + _RELEASE_SECONDS


def _numbers(topic_partitions: Collection[TopicPartition]) -> frozenset[int]:
    return frozenset(topic_partition.partition for topic_partition in topic_partitions)

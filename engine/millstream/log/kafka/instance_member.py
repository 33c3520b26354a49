"""The membership of this process in the group of its service: one consumer that reads nothing,
subscribed to the lease topics of all queries that run here.

The broker that coordinates the group assigns the partitions of those topics. It refuses positions
with the credential of a client that is no longer a member, or has not joined since the last
rebalance. Four rules make that sufficient:

* the thread that runs the callbacks reads the credential anew for each transaction, and each query
  checks only afterwards whether its tasks were lost (`log/fenced_rounds.py`);
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
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from millstream.log.kafka.client import SETTLE_SECONDS, Settings, translated
from millstream.log.kafka.credentials import cause_of, member_of
from millstream.log.kafka.lease_topics import LeaseTopics
from millstream.log.kafka.transactions import MemberCredential
from millstream.model.errors import FencedError, MillstreamError, StatementError, UnavailableError

_LOOK_SECONDS = 0.1
"""How soon a change of the group is noticed."""
_CREDENTIAL_SECONDS = 5.0
_REFUSED_SECONDS = 3.0
"""How soon the client learns why its credential was refused."""
_REFUSED_PAUSE = 0.02
_CLOSE_SECONDS = 5.0
_RELEASE_WAIT_SECONDS = 10.0
_AGAIN_SECONDS = 1.0
_SUCCESSOR_SECONDS = 4.0
"""How soon the other processes detect a running process."""
_RELEASE_SECONDS = 60.0
"""How long a name that the broker considers in use may belong to an earlier process of this
instance."""
_WRONG = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


class View(Protocol):
    """The part of one query in the membership. All calls come from the thread of the member, or
    from the one that adds it."""

    leases: str
    """The lease topic of the query."""

    def hold(self, partitions: frozenset[int], *, lost: bool = False) -> int:
        """The tasks to hold from now on; `lost`: those held before may be another member's already.
        Returns the epoch of this assignment."""

    def done(self, epoch: int) -> bool:
        """Whether nothing else is held any more than what the assignment of `epoch` says."""

    def settle(self, epoch: int) -> None:
        """Count everything else as lost, unless it is done."""

    def fail(self, fault: MillstreamError | None) -> None:
        """The error of its own lease topic, or that there is none any more."""

    def told(self) -> None:
        """Something has changed."""


class InstanceMember:
    """The member, with a thread of its own that follows the group; callable from any thread."""

    def __init__(
        self,
        group: str,
        config: Settings,
        superseded: Callable[[], bool],
        *,
        keep_seconds: float = 0.0,
    ) -> None:
        """`superseded`: see `Membership`. `keep_seconds`: how long the tasks of a query that has
        left are kept: a static member that ends must not give them up one by one before."""
        self.group = group
        self._config = config
        self._superseded = superseded
        self.news = threading.Condition()
        """Guards the views and whatever the thread shares with others."""
        self._views: dict[str, View] = {}
        self._topics = LeaseTopics(keep_seconds)
        self._owned: dict[str, frozenset[int]] = {}
        """The partitions that the client holds, by topic; not those that it is about to release."""
        self._place: tuple[str, int] | None = None
        """A partition that the client holds, or is about to release."""
        self._asked = 0
        self._answered = 0
        self._credential: MemberCredential | None = None
        self._name = b""
        """The id of the member that received the assignment."""
        self._renamed = False
        """Whether the client now has another member id and has not reported the assignment as lost.
        """
        self._closing = False
        self._leaving = False
        """Closing a consumer does not block."""
        self.fault: MillstreamError | None = None
        self._unreleased_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="millstream-member", daemon=True)
        self._thread.start()

    @property
    def member_id(self) -> str:
        """The id of the member that received the assignment; empty before it has."""
        return self._name.decode()

    @property
    def generation(self) -> bytes | None:
        """Another value whenever the group has changed, as far as the client knows; None while it
        is no member."""
        credential = self._credential
        return None if credential is None else credential.shown

    def add(self, view: View) -> None:
        """Share the tasks of a query. Raises UnavailableError while it runs here already."""
        with self.news:
            if self._closing:
                raise UnavailableError("The log is closed")
            if view.leases in self._views:
                raise UnavailableError(f"The tasks of '{view.leases}' are held here already")
            self._views[view.leases] = view
            self._topics.add(view.leases, time.monotonic())
            if owned := self._owned.get(view.leases):
                view.hold(owned)
            self.news.notify_all()
        view.told()

    def remove(self, view: View) -> None:
        """Give up the tasks of a query, soon; idempotent."""
        with self.news:
            if self._views.get(view.leases) is view:
                del self._views[view.leases]
                self._topics.remove(view.leases, time.monotonic())
                self.news.notify_all()

    def release(self, leases: str) -> bool:
        """Give up at once what is left of the tasks of a query that was removed; returns whether
        nothing is held. False as long as the query is not removed."""
        with self.news:
            if leases in self._views:
                return False
            self._topics.hurry(leases)
            self.news.notify_all()
            return self.news.wait_for(
                lambda: self._closing or not self._occupied(leases), _RELEASE_WAIT_SECONDS
            )

    def _occupied(self, leases: str) -> bool:
        held = self._place is not None and self._place[0] == leases
        return held or leases in self._owned or leases in self._topics.subscribed

    def ask(self, refused: MemberCredential | None) -> MemberCredential | None:
        """The credential with which this process may commit now, as read after this call. Another
        one than `refused`, for which it waits a while; None without one."""
        deadline = time.monotonic() + _REFUSED_SECONDS
        while True:
            found = self._ask()
            if found is None or refused is None or found.shown != refused.shown:
                return found
            if time.monotonic() > deadline:
                return None
            time.sleep(_REFUSED_PAUSE)

    def _ask(self) -> MemberCredential | None:
        with self.news:
            self._asked += 1
            asked = self._asked
            self.news.notify_all()
            answered = self.news.wait_for(
                lambda: self._answered >= asked or self._closing, _CREDENTIAL_SECONDS
            )
            return self._credential if answered and self.fault is None else None

    def close(self) -> None:
        """Leave the group; idempotent. If the brokers do not respond, the thread is abandoned after
        a while."""
        with self.news:
            self._closing = True
            self.news.notify_all()
        self._thread.join(_CLOSE_SECONDS)

    # ---- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing and not isinstance(self.fault, FencedError):
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
                self.fault = error
            except SystemError:
                # The client (2.16) raises it for an error that comes while a callback of its own
                # fails. The assignment is lost already; a new consumer joins the group.
                logging.getLogger("millstream").debug("a consumer broke down", exc_info=True)
            with self.news:
                self._topics.subscribed = frozenset()
                self.news.notify_all()
                self.news.wait_for(lambda: self._closing, _AGAIN_SECONDS)

    def _follow(self, consumer: Consumer) -> None:
        """Until it is closed, the client fails for good, or its member id changes."""
        while not self._closing and not self._renamed:
            self._subscribe(consumer)
            message = consumer.poll(0)
            if message is not None and (fault := message.error()) is not None:
                if fault.code() == KafkaError._FATAL:
                    raise KafkaException(cause_of(fault))
                if fault.code() in _WRONG:
                    self._refused(fault, message.topic())
            with self.news:
                self.news.wait_for(lambda: self._wanted() or self._topics.hurried, _LOOK_SECONDS)
            self._answer(consumer)

    def _subscribe(self, consumer: Consumer) -> None:
        with self.news:
            topics = self._topics.due(time.monotonic())
        if topics is None:
            return
        if topics:
            consumer.subscribe(
                sorted(topics),
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )
        else:
            consumer.unsubscribe()
        with self.news:
            self._topics.subscribed = topics
            self.news.notify_all()

    def _wanted(self) -> bool:
        return self._closing or self._asked > self._answered

    def _answer(self, consumer: Consumer) -> None:
        """Return the credential to waiting callers. The member id is checked even without any."""
        asked = self._asked
        shown = self._shown(consumer)
        with self.news:
            place = self._place
            if shown is not None:
                self.fault = None
            self._credential = (
                None if shown is None or place is None else MemberCredential(place, shown)
            )
            self._answered = asked
            self.news.notify_all()

    def _shown(self, consumer: Consumer) -> bytes | None:
        """The current credential, if it belongs to the member that received the assignment."""
        shown: bytes = consumer.consumer_group_metadata()
        name = member_of(shown)
        if name and name != self._name and self._owned:
            self._renamed = True
            self._lose()
        return shown if name and not self._renamed else None

    def _on_assign(self, consumer: Consumer, given: Sequence[TopicPartition]) -> None:
        self._unreleased_since = None
        shown = self._shown(consumer)
        consumer.incremental_assign([TopicPartition(at.topic, at.partition, 0) for at in given])
        if not given or self._renamed:
            return
        consumer.pause(list(given))
        if not self._owned:
            self._name = member_of(shown) if shown else b""
        self._place = self._place or (given[0].topic, given[0].partition)
        more = _by_topic(given)
        for leases, partitions in more.items():
            self._own(leases, self._owned.get(leases, frozenset()) | partitions)

    def _on_revoke(self, consumer: Consumer, taken: Sequence[TopicPartition]) -> None:
        """Held tasks are committed by other threads meanwhile, with credentials from here."""
        self._shown(consumer)
        less = _by_topic(taken)
        settling = []
        for leases, partitions in less.items():
            owned = self._owned.get(leases, frozenset())
            if owned & partitions and (told := self._own(leases, owned - partitions)) is not None:
                settling.append(told)
        self._settle(consumer, settling)
        consumer.incremental_unassign(list(taken))
        self._forget_place(less)

    def _settle(self, consumer: Consumer, settling: Sequence[tuple[View, int]]) -> None:
        """Wait for the queries that have to release tasks; the others go on."""

        def done() -> bool:
            over = self._leaving or self._closing
            return over or all(view.done(epoch) for view, epoch in settling)

        deadline = time.monotonic() + SETTLE_SECONDS
        while not done() and time.monotonic() < deadline:
            with self.news:
                self.news.wait_for(lambda: done() or self._wanted(), _LOOK_SECONDS)
            self._answer(consumer)
        for view, epoch in settling:
            view.settle(epoch)

    def _forget_place(self, less: Mapping[str, frozenset[int]]) -> None:
        with self.news:
            if self._place is not None and self._place[1] in less.get(self._place[0], ()):
                left = [(leases, min(owned)) for leases, owned in self._owned.items()]
                self._place = left[0] if left else None
            self.news.notify_all()

    def _on_lost(self, consumer: Consumer, taken: Sequence[TopicPartition]) -> None:
        self._lose()
        consumer.incremental_unassign(list(taken))

    def _lose(self) -> None:
        for leases in list(self._owned):
            self._own(leases, frozenset(), lost=True)
        with self.news:
            self._place = None
            self.news.notify_all()

    def _own(
        self, leases: str, partitions: frozenset[int], *, lost: bool = False
    ) -> tuple[View, int] | None:
        """Note what the client holds of a query, and tell the query if it runs here."""
        with self.news:
            if partitions:
                self._owned[leases] = partitions
            else:
                self._owned.pop(leases, None)
            view = self._views.get(leases)
            epoch = 0 if view is None else view.hold(partitions, lost=lost)
            self.news.notify_all()
        if view is None:
            return None
        view.told()
        return view, epoch

    def _refused(self, fault: KafkaError, leases: str | None) -> None:
        """One lease topic is refused, or the group."""
        with self.news:
            view = None if leases is None else self._views.get(leases)
        if view is None:
            self._fail(fault)
            return
        view.fail(translated(fault, f"share the tasks of '{leases}'"))
        view.told()

    def _fail(self, fault: KafkaError) -> None:
        """The error that the driver gets when it reads the assignment."""
        unreleased = fault.code() == KafkaError.UNRELEASED_INSTANCE_ID
        if unreleased and not self._unreleased_for_long():
            return
        failure = translated(fault, f"take part in the group '{self.group}'")
        if unreleased or isinstance(failure, FencedError):
            self._lose()
            if not unreleased and not self._has_successor():
                return
            name = self._config.get("group.instance.id")
            failure = FencedError(
                f"Another process runs with instance id '{name}'",
                hint="Give each process an instance id of its own, or none.",
            )
        self.fault = failure
        with self.news:
            views = list(self._views.values())
        for view in views:
            view.told()

    def _has_successor(self) -> bool:
        """Whether another process has our name. A join request that was sent twice, because the
        response was slow, also makes the brokers report a second process."""
        deadline = time.monotonic() + _SUCCESSOR_SECONDS
        while not self._closing and time.monotonic() < deadline:
            if self._superseded():
                return True
            with self.news:
                self.news.wait(_LOOK_SECONDS)
        return False

    def _unreleased_for_long(self) -> bool:
        """The broker may not have detected yet that an earlier process of this name has ended."""
        now = time.monotonic()
        self._unreleased_since = self._unreleased_since or now
        return now > self._unreleased_since + _RELEASE_SECONDS


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    for at in partitions:
        found[at.topic] = found.get(at.topic, frozenset()) | {at.partition}
    return found

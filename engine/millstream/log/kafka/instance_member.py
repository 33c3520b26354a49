"""The membership of this process in the group of its service, for all its queries.

The members subscribe to a topic without records, whose partitions are their *seats*. This serves
two purposes. Each transaction of a query carries the credential of the process's member, which the
brokers refuse once the process was removed, or has not joined since the last rebalance. And who has
which seat shows who was removed, and who is the leader: the member with the first one. Which member
has which task is agreed on by the records of the assignment topic (`log/assignment`). Six rules
make that sufficient:

* the thread that runs the callbacks reads the credential anew for each transaction, and each query
  checks only afterwards whether its tasks were lost (`log/fenced_rounds.py`);
* a credential is valid only while it names the member that has the tasks. A member that the brokers
  have removed joins again under a new id. If it has a static name and was already joining again, it
  does so without reporting that all was lost (2.16): under the new id it could commit tasks that
  others have meanwhile. In this case everything counts as lost, and another consumer joins;
* a credential without a member (the client has just learned that it was removed) is never used:
  with an empty one the broker treats the transaction as that of a group without members;
* a task is released only when it is committed, or counted as lost before;
* a member has tasks only while it has a seat, because the client reports a removal only then; and
  after a removal it takes part under another name, even if the brokers know it by the same id
  (KIP-848);
* a member claims its seats in a transaction with its credential, so that a claim from before its
  removal is refused; one that has to give up all seats that it has claimed starts over.

All calls into the consumer come from one thread: each blocks the others (2.16).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from millstream.log.assignment.group_assignment import NOBODY, Released, Seated
from millstream.log.assignment.leader import Leader
from millstream.log.assignment.member_tasks import MemberTasks
from millstream.log.fenced_rounds import RefusedCredentialError
from millstream.log.kafka.assignment_topic import AssignmentTopic
from millstream.log.kafka.client import SETTLE_SECONDS, Settings, translated
from millstream.log.kafka.credentials import cause_of, member_of
from millstream.log.kafka.leaving import GROUP_INSTANCE_ID, leave
from millstream.log.kafka.name_dispute import NameDispute
from millstream.log.kafka.transactions import MemberCredential
from millstream.log.log import Assignment, Outcome, Result
from millstream.log.watchers import News
from millstream.model.errors import (
    CorruptionError,
    FencedError,
    MillstreamError,
    StatementError,
    UnavailableError,
)

_LOOK_SECONDS = 0.1
"""How soon a change of the group is noticed."""
_CREDENTIAL_SECONDS = 5.0
_REFUSED_SECONDS = 3.0
"""How soon the client learns why its credential was refused."""
_REFUSED_PAUSE = 0.02
_CLOSE_SECONDS = 5.0
_AGAIN_SECONDS = 1.0
_VACANT_SECONDS = 10.0
_WHOLE_SECONDS = 1.0
"""How often everything is looked at, in case that news were missed."""
_TRUNCATE_EVERY = 50
"""Every so many assignments, those before are deleted."""
_WRONG = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


class InstanceMember:
    """The member, with a thread of its own that follows the group; callable from any thread."""

    def __init__(
        self,
        config: Settings,
        subscribed: str,
        topic: AssignmentTopic,
        claim: Callable[[Seated, MemberCredential], Result],
        leader: Leader,
        dispute: NameDispute,
        moved: Callable[[str], None],
        *,
        keep_seconds: float = 0.0,
    ) -> None:
        """`subscribed`: the topic whose partitions the brokers share out. `claim` writes that this
        member has seats, in a transaction with its credential. `dispute`: of its static name.
        `moved` is called, from the thread, with the group of a query whose assignment has changed.
        `keep_seconds`: how long the tasks of a query that has left are kept: a process with a
        static name that ends must not give them up before."""
        self._config = config
        self._subscribed = subscribed
        self._topic = topic
        self._claim_seats = claim
        self._leader = leader
        self._moved = moved
        self._keep_seconds = keep_seconds
        self._dispute = dispute
        self._news = threading.Condition()
        """Guards the tasks and whatever the thread shares with others."""
        self._tasks = MemberTasks(0)
        self._applied = -1
        """Before which offset of the topic the tasks reflect everything."""
        self._kept: dict[str, float] = {}
        """The queries that have left, and until when their tasks are kept."""
        self._unsettled: dict[str, float] = {}
        """Until when each query may take to stop what was taken from it."""
        self._woken = False
        """Whether the thread has something to look at."""
        self._partitions: frozenset[int] = frozenset()
        self._member_id = b""
        """The id of the member that received them."""
        self._claimed: frozenset[int] = frozenset()
        self._seated = False
        """Whether the others count this member."""
        self._asked = 0
        self._answered = 0
        self._credential: MemberCredential | None = None
        self._over = False
        """Whether the consumer takes part no more: its member id has changed, or it closes."""
        self._closing = False
        self.fault: MillstreamError | None = None
        self._thread = threading.Thread(target=self._run, name="millstream-member", daemon=True)
        self._thread.start()

    # ---- the queries -------------------------------------------------------------------------

    def join(self, group: str, tasks: int) -> None:
        """Share the tasks of a query. Raises UnavailableError while it runs here already."""
        with self._news:
            if self._closing:
                raise UnavailableError("The log is closed")
            if self._tasks.runs(group) and group not in self._kept:
                raise UnavailableError(f"The tasks of '{group}' are held here already")
            self._leave_kept(group)
            self._tasks.join(group, tasks)
            self._wake()

    def leave(self, group: str) -> None:
        """Give up the tasks of a query, which has stopped them; idempotent."""
        with self._news:
            if self._keep_seconds and self._tasks.runs(group):
                self._kept.setdefault(group, time.monotonic() + self._keep_seconds)
            else:
                self._tasks.leave(group)
            self._wake()

    def _leave_kept(self, group: str) -> None:
        if self._kept.pop(group, None) is not None:
            self._tasks.leave(group)

    def assignment(self, group: str) -> Assignment:
        """What a query may process now; raises FencedError as `Member.assignment` does."""
        if self.fault is not None:
            raise self.fault
        with self._news:
            self._tasks.check(group)
            return self._tasks.assignment(group)

    def settled(self, group: str, epoch: int) -> None:
        """A query holds nothing but the assignment of `epoch`."""
        with self._news:
            self._tasks.settled(group, epoch)
            self._wake()

    def peers(self, group: str) -> bool:
        """Whether other members run a query."""
        with self._news:
            return self._tasks.peers(group)

    def warmups(self) -> Mapping[str, frozenset[int]]:
        """See `MemberTasks.warmups`."""
        return self._tasks.warmups

    def vacant(self, group: str) -> bool:
        """Whether no member has a task of a query, which gives them up at once if it has left."""
        end = self._topic.end()
        with self._news:
            self._leave_kept(group)
            self._wake()
            read = self._news.wait_for(
                lambda: self._closing or (self._applied >= end and not self._tasks.reports()),
                _VACANT_SECONDS,
            )
            if not read:
                raise UnavailableError(f"Cannot see which instance runs '{group}'")
            return not self._tasks.runs(group) and not self._tasks.owners.owned(group)

    # ---- credentials -------------------------------------------------------------------------

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
        with self._news:
            self._asked += 1
            asked = self._asked
            self._wake()
            answered = self._news.wait_for(
                lambda: self._answered >= asked or self._closing, _CREDENTIAL_SECONDS
            )
            return self._credential if answered and self.fault is None else None

    def on_news(self, news: News) -> None:
        """News of the log."""
        if self._topic.name in news.grown:
            with self._news:
                self._wake()

    def _wake(self) -> None:
        self._woken = True
        self._news.notify_all()

    def close(self) -> None:
        """Leave the group; idempotent. If no broker responds, the thread is abandoned."""
        with self._news:
            self._closing = True
            self._wake()
        self._thread.join(_CLOSE_SECONDS)

    # ---- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing and not isinstance(self.fault, FencedError):
            self._over = False
            try:
                consumer = Consumer(self._config)
                try:
                    self._follow(consumer)
                except KafkaException as error:
                    self._fail(error.args[0])
                finally:
                    # Closing it runs callbacks that may assign partitions once more.
                    self._over = True
                    self._lose()
                    leave(consumer, static=self._closing and GROUP_INSTANCE_ID in self._config)
            except KafkaException as error:
                self._fail(error.args[0])
            except StatementError as error:
                self.fault = error
            except MillstreamError as error:
                # A report may have been written or not: another member joins, with nothing to
                # report of this one.
                logging.getLogger("millstream").debug("the membership starts over: %s", error)
            except SystemError:
                # The client (2.16) raises it for an error that comes while a callback of its own
                # fails. The assignment is lost already; a new consumer joins the group.
                logging.getLogger("millstream").debug("a consumer broke down", exc_info=True)
            with self._news:
                self._news.wait_for(lambda: self._closing, _AGAIN_SECONDS)
        self._topic.close()

    def _follow(self, consumer: Consumer) -> None:
        """Until it is closed, the client fails for good, or its member id changes."""
        start = self._topic.restart()
        with self._news:
            self._tasks.restart(start)
            self._applied = -1
        consumer.subscribe(
            [self._subscribed],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        whole = 0.0
        while not self._closing and not self._over:
            self._poll(consumer)
            self._answer(consumer)
            self._claim()
            if self._woken or self._kept or self._unsettled or time.monotonic() >= whole:
                whole = time.monotonic() + _WHOLE_SECONDS
                self._woken = False
                self._read()
                self._report()
            self._lead()
            with self._news:
                self._news.wait_for(lambda: self._woken or self._closing, _LOOK_SECONDS)

    def _poll(self, consumer: Consumer) -> None:
        message = consumer.poll(0)
        if message is not None and (fault := message.error()) is not None:
            if fault.code() == KafkaError._FATAL:
                raise KafkaException(cause_of(fault))
            if fault.code() in _WRONG:
                self._fail(fault)

    def _answer(self, consumer: Consumer) -> None:
        """Return the credential to waiting callers. The member id is checked even without any."""
        asked = self._asked
        shown = self._shown(consumer)
        with self._news:
            if shown is not None:
                self.fault = None
            self._credential = (
                None if shown is None else MemberCredential((self._subscribed, 0), shown)
            )
            self._answered = asked
            self._news.notify_all()

    def _shown(self, consumer: Consumer) -> bytes | None:
        """The current credential, if it belongs to the member that received the partitions."""
        shown: bytes = consumer.consumer_group_metadata()
        found = member_of(shown)
        if found and found != self._member_id and self._partitions:
            self._over = True
            self._lose()
        if not found or self._over or not self._partitions:
            return None
        return shown

    def _read(self) -> None:
        """Take over what the topic says, and notify the queries whose tasks have changed."""
        try:
            records = self._topic.read()
        except CorruptionError as error:
            raise UnavailableError(
                "The assignment topic was truncated", detail=str(error)
            ) from error
        except UnavailableError:
            # What is held stays valid: the credential decides.
            return
        with self._news:
            for offset, record in records:
                self._tasks.read(offset, record)
            self._applied = self._topic.position
            changed = self._tasks.update()
            seated = self._tasks.name in self._tasks.owners.members
            self._news.notify_all()
        self._notify(changed)
        if self._seated and not seated:
            # It starts over, unless a successor has its name: they would fence each other for ever.
            self._over = True
            self._lose()
            if self._dispute.taken(self._tasks.owners.members, lambda: self._closing):
                self.fault = self._dispute.error()
                self._notify(self._tasks.groups())
            return
        self._seated = seated
        made = self._tasks.known.assignment
        if records and self._leads and made.number % _TRUNCATE_EVERY == 0:
            self._topic.truncate(made.read)

    def _notify(self, groups: Collection[str]) -> None:
        for group in groups:
            self._moved(group)

    def _report(self) -> None:
        """Write what the others have to know. Queries that take too long to stop lose all."""
        now = time.monotonic()
        with self._news:
            for group, until in list(self._kept.items()):
                self._tasks.settled(group, self._tasks.assignment(group).epoch)
                if now >= until:
                    self._leave_kept(group)
            late = self._overdue(now)
            for group in late:
                self._tasks.give_up(group)
            # A report of a member without a seat would not count.
            reports = self._tasks.reports() if self._seated else []
        self._notify(late)
        for report in reports:
            try:
                self._topic.write(report)
            except UnavailableError:
                if isinstance(report, Released):
                    # It may be repeated at any time; others may not come after later reports.
                    return
                raise
            with self._news:
                self._tasks.reported(report)
                self._news.notify_all()

    def _overdue(self, now: float) -> list[str]:
        unsettled = self._tasks.unsettled()
        self._unsettled = {
            group: self._unsettled.get(group, now + SETTLE_SECONDS) for group in unsettled
        }
        return [group for group, until in self._unsettled.items() if now >= until]

    def _lead(self) -> None:
        if not self._leads or (made := self._leader.next(self._tasks, time.monotonic())) is None:
            return
        try:
            self._topic.write(made)
        except UnavailableError:
            # If it was written even so, another one with this number does not count.
            self._leader.retry()

    # ---- the group ---------------------------------------------------------------------------

    @property
    def _leads(self) -> bool:
        return self._seated and self._tasks.owners.seats.get(0) == self._tasks.name

    def _claim(self) -> None:
        """Have the others count this member, and those as gone that have had its seats before."""
        wanted, credential = self._partitions - self._claimed, self._credential
        if not wanted or credential is None:
            return
        result = self._claim_seats(Seated(self._tasks.name, wanted), credential)
        if result is Outcome.COMMITTED:
            self._claimed |= wanted
        elif result is not Outcome.ABORTED and not isinstance(result, RefusedCredentialError):
            raise UnavailableError("It is not known whether the seats of this member were claimed")

    def _on_assign(self, consumer: Consumer, given: Sequence[TopicPartition]) -> None:
        self._dispute.over()
        shown = self._shown(consumer)
        consumer.incremental_assign([TopicPartition(at.topic, at.partition, 0) for at in given])
        if not given or self._over:
            return
        consumer.pause(list(given))
        if not self._partitions:
            self._enter(consumer.consumer_group_metadata() if shown is None else shown)
        self._partitions |= _numbers(given)

    def _enter(self, shown: bytes) -> None:
        """Take part as a new member."""
        self._member_id = member_of(shown)
        self._claimed, self._seated = frozenset(), False
        with self._news:
            changed = self._tasks.rename(self._dispute.new_member())
            self._wake()
        self._notify(changed)

    def _on_revoke(self, consumer: Consumer, taken: Sequence[TopicPartition]) -> None:
        numbers = _numbers(taken)
        before = self._claimed
        self._partitions, self._claimed = self._partitions - numbers, self._claimed - numbers
        if before and not self._claimed:
            # Without a seat that it has claimed, the others may take it for gone at any time.
            self._over = True
            self._lose()
        consumer.incremental_unassign(list(taken))

    def _on_lost(self, consumer: Consumer, taken: Sequence[TopicPartition]) -> None:
        self._lose()
        consumer.incremental_unassign(list(taken))

    def _lose(self) -> None:
        """Everything may be another member's from now on."""
        self._partitions = self._claimed = frozenset()
        self._seated = False
        self._leader.stop()
        with self._news:
            changed = self._tasks.rename(NOBODY)
            self._credential = None
            self._news.notify_all()
        self._notify(changed)

    def _fail(self, fault: KafkaError) -> None:
        """The error that a query gets when it reads its assignment."""
        unreleased = fault.code() == KafkaError.UNRELEASED_INSTANCE_ID
        if unreleased and not self._dispute.unreleased_for_long():
            return
        failure = translated(fault, "take part in sharing the tasks of the queries")
        if unreleased or isinstance(failure, FencedError):
            self._lose()
            if not unreleased and not self._dispute.has_successor(lambda: self._closing):
                return
            failure = self._dispute.error()
        self.fault = failure
        with self._news:
            groups = self._tasks.groups()
        self._notify(groups)


def _numbers(partitions: Sequence[TopicPartition]) -> frozenset[int]:
    return frozenset(at.partition for at in partitions)

"""The committed positions of groups on the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from millstream.log.kafka.asking import ABSENT, PAUSE, UNSETTLED, answer_to
from millstream.log.kafka.client import REQUEST_SECONDS, Settings, translated
from millstream.log.log import TopicPartition as Place
from millstream.model.errors import UnavailableError

_LEAVE_SECONDS = 20.0
"""How long the members of a group may take to leave it; the brokers remove a dead one sooner."""
_LEAVE_PAUSE = 0.1


class Groups:
    """Reads and drops positions. Calls block until the response."""

    def __init__(
        self,
        admin: AdminClient,
        reading: Callable[[str], Settings],
        everywhere: Callable[[], Collection[Place]],
    ) -> None:
        """`reading`: the configuration of a consumer of a group; `everywhere`: all partitions."""
        self._admin = admin
        self._reading = reading
        self._everywhere = everywhere

    def positions(self, group: str, topic_partitions: Collection[Place] = ()) -> dict[Place, int]:
        """A group's committed positions, after all transactions that move them are complete.

        A consumer makes this request: the admin client aborts its whole process when the broker
        that it asks is no longer the group's coordinator (librdkafka issue 5040, 2.16).
        """
        wanted = [
            TopicPartition(*topic_partition)
            for topic_partition in topic_partitions or self._everywhere()
        ]
        consumer = Consumer(self._reading(group))
        try:
            found = self._settled(consumer, wanted) if wanted else []
        except KafkaException as error:
            raise translated(error, f"read the positions of '{group}'") from error
        finally:
            consumer.close()
        return {(item.topic, item.partition): item.offset for item in found if item.offset >= 0}

    @staticmethod
    def _settled(consumer: Consumer, wanted: list[TopicPartition]) -> list[TopicPartition]:
        """To a consumer that reads committed records only, a broker that is completing a
        transaction returns a retriable error, and the client retries."""
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            try:
                found = consumer.committed(wanted, timeout=REQUEST_SECONDS)
                failed = [item.error for item in found if item.error is not None]
                lasting = [error for error in failed if error.code() not in ABSENT]
                if not lasting:
                    return list(found)
                raise KafkaException(lasting[0])
            except KafkaException as error:
                if error.args[0].code() not in UNSETTLED or time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE)

    def members(self, group: str) -> dict[str, frozenset[str]]:
        """The members of a group by their id, and the topics of which each has partitions."""
        found = self.described(group)
        return {
            member.member_id: frozenset(at.topic for at in member.assignment.topic_partitions)
            for member in (() if found is None else found.members)
        }

    def described(self, group: str) -> ConsumerGroupDescription | None:
        """A group as it is now; None if it does not exist."""
        try:
            found: ConsumerGroupDescription = answer_to(
                lambda: self._admin.describe_consumer_groups([group])[group]
            )
            return found
        except KafkaException as error:
            if error.args[0].code() in ABSENT:
                return None
            raise translated(error, f"look who is in the group '{group}'") from error

    def await_released(self, group: str, leases: str, besides: str) -> None:
        """Wait until no member of a group has partitions of a topic, besides one. Raises
        UnavailableError when some still has after a while."""
        deadline = time.monotonic() + _LEAVE_SECONDS
        while holders := [
            member
            for member, topics in self.members(group).items()
            if leases in topics and member != besides
        ]:
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"Other instances still hold tasks of '{leases}'",
                    detail=", ".join(sorted(holders)),
                    hint="They release them when they have read the statement, or end.",
                )
            time.sleep(_LEAVE_PAUSE)

    def forget(self, group: str) -> None:
        """Drop a group's positions. Raises UnavailableError when it still has members after a
        while."""
        deadline = time.monotonic() + _LEAVE_SECONDS
        while True:
            try:
                answer_to(lambda: self._admin.delete_consumer_groups([group])[group])
                return
            except KafkaException as error:
                code = error.args[0].code()
                if code in ABSENT:
                    return
                if code != KafkaError.NON_EMPTY_GROUP or time.monotonic() > deadline:
                    raise translated(error, f"forget the positions of '{group}'") from error
            time.sleep(_LEAVE_PAUSE)

"""The committed positions of groups on the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from millstream.log.kafka.asking import ABSENT, PASSING, PAUSE, UNSETTLED, answer_to
from millstream.log.kafka.client import REQUEST_SECONDS, Settings, translated
from millstream.log.log import TopicPartition as Place

_LEAVE_SECONDS = 20.0
"""How long the members of a group may take to leave it; the brokers remove a dead one sooner."""
_LEAVE_PAUSE = 0.1
_OCCUPIED = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)


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

    def vacant(self, group: str, lease: Place) -> bool:
        """Whether a group has no members: only then do the brokers let a non-member move its
        positions. `lease`: a position that may be moved at any time."""
        consumer = Consumer(self._reading(group))
        deadline = time.monotonic() + REQUEST_SECONDS
        try:
            while True:
                try:
                    consumer.commit(offsets=[TopicPartition(*lease, 0)], asynchronous=False)
                    return True
                except KafkaException as error:
                    code = error.args[0].code()
                    if code in _OCCUPIED:
                        return False
                    if code not in PASSING or time.monotonic() > deadline:
                        attempt = f"see whether anybody is in the group '{group}'"
                        raise translated(error, attempt) from error
                time.sleep(PAUSE)
        finally:
            consumer.close()

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

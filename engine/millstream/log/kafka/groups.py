"""The positions of groups, as the cluster keeps them."""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import Future

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from millstream.log.kafka.asking import ABSENT, PAUSE, UNSETTLED, answer_to
from millstream.log.kafka.client import REQUEST_SECONDS, translated
from millstream.log.log import TopicPartition as Place

_LEAVE_SECONDS = 20.0
"""How long the members of a group may take to leave it; the brokers give up a dead one sooner."""
_LEAVE_PAUSE = 0.1


class Groups:
    """Reads and drops positions. Calls wait for their answer."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def positions(self, group: str, moved: Collection[Place] = ()) -> dict[Place, int]:
        """What a group has committed, once no transaction that moves it is being completed.

        `moved`: places that this process has committed positions for. Where a group has none yet,
        a broker that is asked for all of them does not tell that some are on their way.
        """
        if moved:
            self._settled(group, [TopicPartition(*place) for place in moved])
        found = self._settled(group, None)
        return {(item.topic, item.partition): item.offset for item in found if item.offset >= 0}

    def _settled(self, group: str, wanted: list[TopicPartition] | None) -> list[TopicPartition]:
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            found = self._group_offsets(group, wanted)
            unsettled = next((item.error for item in found if item.error is not None), None)
            if unsettled is None:
                return found
            if unsettled.code() not in UNSETTLED or time.monotonic() > deadline:
                raise translated(unsettled, f"read the positions of '{group}'")
            time.sleep(PAUSE)

    def _group_offsets(
        self, group: str, wanted: list[TopicPartition] | None
    ) -> list[TopicPartition]:
        def ask() -> Future[ConsumerGroupTopicPartitions]:
            asked = [ConsumerGroupTopicPartitions(group, wanted)]
            return self._admin.list_consumer_group_offsets(
                asked, require_stable=True, request_timeout=REQUEST_SECONDS
            )[group]

        try:
            return list(answer_to(ask).topic_partitions or ())
        except KafkaException as error:
            if error.args[0].code() in ABSENT:
                return []
            raise translated(error, f"read the positions of '{group}'") from error

    def forget(self, group: str) -> None:
        """Drop a group's positions. UnavailableError when it still has members after a while."""
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

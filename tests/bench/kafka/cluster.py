"""The bench's requests to the broker: ends of topics, positions of groups."""

from __future__ import annotations

import time

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

Place = tuple[str, int]


class Cluster:
    """The broker of the bench."""

    def __init__(self, servers: str, process: int) -> None:
        """`process`: its id, for the CPU that it uses."""
        self.servers = servers
        self.process = process
        self.admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def create(self, name: str, partitions: int) -> None:
        """Make a topic."""
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result()

    def delete(self, prefixes: tuple[str, ...]) -> None:
        """Remove the topics whose names begin so."""
        names = [name for name in self.admin.list_topics(timeout=10).topics
                 if name.startswith(prefixes)]  # fmt: skip
        if names:
            for answer in self.admin.delete_topics(names).values():
                answer.exception()

    def ends(self, places: list[Place], *, committed: bool) -> dict[Place, int]:
        """The offsets after the last records, of those that are committed or of all."""
        asked = {TopicPartition(*place): OffsetSpec.latest() for place in places}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        problem = None
        for _ in range(100):
            try:
                answers = self.admin.list_offsets(asked, isolation_level=level)
                return {
                    (place.topic, place.partition): answer.result().offset
                    for place, answer in answers.items()
                }
            except KafkaException as error:
                # It may not have the metadata of a new topic yet, and does not request it by
                # itself.
                problem = error
                self.admin.list_topics(timeout=10)
                time.sleep(0.1)
        raise SystemExit(f"The broker does not tell the ends of {places[0][0]}: {problem}")

    def positions(self, group: str, places: list[Place]) -> dict[Place, int]:
        """What a group has committed; -1001 where it has not."""
        asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(*place) for place in places])]
        answer = self.admin.list_consumer_group_offsets(asked)[group]
        try:
            found = answer.result().topic_partitions or []
        except KafkaException:
            return {}
        return {(item.topic, item.partition): item.offset for item in found}

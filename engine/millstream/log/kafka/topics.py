"""Creates, describes, measures and removes topics of the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ConfigSource,
    ListOffsetsResultInfo,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from millstream.log.kafka.asking import ABSENT, PAUSE, answer_to, answers_to
from millstream.log.kafka.client import (
    REQUEST_SECONDS,
    admin_config,
    consumer_config,
    refused,
    translated,
)
from millstream.log.kafka.groups import Groups
from millstream.log.kafka.purges import Purges
from millstream.log.kafka.topic_metadata import TopicMetadataCache, absent, described
from millstream.log.kafka.topic_settings import configure, usage
from millstream.log.log import Topic
from millstream.log.log import TopicPartition as Place
from millstream.log.usage import TopicUsage
from millstream.model.errors import (
    ConflictError,
    CorruptionError,
    MillstreamError,
    StatementError,
    UnavailableError,
)

Result = TypeVar("Result")
_LOOK_SECONDS = 2.0
_SOON_SECONDS = 0.5
_METADATA_ATTEMPTS = 200
_METADATA_PAUSE = 0.02
_SPREAD_SECONDS = 5.0
"""How long the metadata of a new topic may take to reach all brokers."""


class Topics:
    """The administrative side of a cluster. Calls block until the response."""

    def __init__(self, servers: str, extra: Mapping[str, str]) -> None:
        try:
            self._admin = AdminClient(admin_config(servers, extra))
        except KafkaException as error:
            raise refused(error, extra) from None
        self.sightings = TopicMetadataCache(self._admin)
        reading = partial(consumer_config, servers, extra=extra)
        self.groups = Groups(self._admin, reading, self._everywhere)
        self.purges = Purges(self._admin, partial(self.offset, end=True))
        self._partitions: dict[str, int] = {}
        self._heard: set[str] = set()
        """Topics that one broker has reported and another one may not have yet."""
        self._ends: dict[TopicPartition, Future[ListOffsetsResultInfo]] = {}
        """The last responses to `ends`."""

    def create(self, topics: Sequence[Topic]) -> list[Topic | MillstreamError]:
        """Make topics in one request, and wait until they can be used. For each, in their order:
        the topic with its id, or the error."""
        wanted = {
            topic.name: NewTopic(
                topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replicas,
                config=dict(topic.config),
            )
            for topic in topics
            if topic.partitions > 0
        }
        answers = answers_to(
            lambda names: self._admin.create_topics([wanted[name] for name in names]),
            wanted,
            repeatable=False,
        )
        failed = {
            name: _not_created(name, answer)
            for name, answer in answers.items()
            if isinstance(answer, KafkaException)
        }
        made = {topic.name: topic for topic in topics if topic.name in wanted.keys() - failed}
        self._heard |= made.keys()
        self._heard |= {name for name, error in failed.items() if isinstance(error, ConflictError)}
        ids = self._await_topics(made)
        results: list[Topic | MillstreamError] = []
        for topic in topics:
            if topic.name in made:
                results.append(replace(topic, id=ids.get(topic.name, "")))
            else:
                text = f"Topic '{topic.name}' needs at least one partition"
                results.append(failed.get(topic.name) or StatementError(text))
        return results

    def _await_topics(self, made: Mapping[str, Topic]) -> dict[str, str]:
        """Wait until a broker has the metadata of new topics, which reach each broker at a
        different time; their ids."""
        ids: dict[str, str] = {}
        for _ in range(_METADATA_ATTEMPTS):
            found = self._describe(made.keys() - ids.keys())
            for name, topic in found.items():
                if isinstance(topic, Topic) and topic.partitions == made[name].partitions:
                    ids[name] = topic.id
                    self._partitions[name] = topic.partitions
            if len(ids) == len(made):
                break
            self._admin.poll(_METADATA_PAUSE)
        return ids

    def delete(self, name: str) -> None:
        """Remove a topic and wait until it is gone; no error when it does not exist."""
        self._partitions.pop(name, None)
        self._heard.discard(name)
        self.purges.drop(name)
        try:
            answer_to(lambda: self._admin.delete_topics([name])[name])
        except KafkaException as error:
            if error.args[0].code() in ABSENT:
                return
            raise translated(error, f"delete topic '{name}'") from error
        for _ in range(_METADATA_ATTEMPTS):
            if self._metadata(name) is None:
                return
            self._admin.poll(_METADATA_PAUSE)

    def configure(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic; None goes back to the cluster's default."""
        configure(self._admin, name, changes)

    def usage(self, names: Collection[str]) -> dict[str, TopicUsage]:
        """What those of these topics hold that exist."""
        topics = tuple(self.described(names).values())
        for topic in topics:
            for part in range(topic.partitions):
                self.purges.settle((topic.name, part))
        return usage(self._admin, topics)

    def describe(self, name: str) -> Topic | None:
        """A topic with the settings that differ from the cluster's."""
        return self.with_settings([name]).get(name)

    def with_settings(self, names: Collection[str]) -> dict[str, Topic]:
        """The same of several, in two requests; without those that do not exist."""
        found = self.described(names)
        answers = answers_to(self._settings_of, found)
        for name, settings in answers.items():
            if isinstance(settings, KafkaException):
                if settings.args[0].code() not in ABSENT:
                    raise translated(settings, f"describe topic '{name}'") from settings
                del found[name]
                continue
            own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            config = {key: item.value for key, item in settings.items() if item.source == own}
            found[name] = replace(found[name], config=config)
        return found

    def _settings_of(self, names: Sequence[str]) -> dict[str, Future[Any]]:
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        answers = self._admin.describe_configs(asked)
        return {resource.name: answers[resource] for resource in asked}

    def described(self, names: Collection[str]) -> dict[str, Topic]:
        """Topics as they are now, in one request; without their settings, and without those that do
        not exist."""
        found: dict[str, Topic] = {}
        left = set(names)
        deadline = time.monotonic() + REQUEST_SECONDS
        while left:
            for name, topic in self._describe(left).items():
                if isinstance(topic, Topic):
                    found[name] = topic
                elif not absent(topic):
                    raise translated(topic, f"describe topic '{name}'") from topic
            # The broker that was asked may not have the metadata of another one yet.
            left = {name for name in left - found.keys() if self._metadata(name) is not None}
            if time.monotonic() > deadline:
                break
        return found

    def _describe(self, names: Collection[str]) -> dict[str, Topic | KafkaException]:
        answers = answers_to(lambda left: self._admin.describe_topics(TopicCollection(left)), names)
        return {
            name: answer if isinstance(answer, KafkaException) else described(answer)
            for name, answer in answers.items()
        }

    def cluster_id(self) -> str:
        """The cluster id."""
        return str(self._asked(lambda: self._admin.list_topics(timeout=REQUEST_SECONDS)).cluster_id)

    def names(self) -> tuple[str, ...]:
        """All topics but the cluster's own."""
        listed = self._asked(lambda: self._admin.list_topics(timeout=REQUEST_SECONDS))
        return tuple(sorted(name for name in listed.topics if not name.startswith("__")))

    def _everywhere(self) -> list[Place]:
        listed = self._asked(lambda: self._admin.list_topics(timeout=REQUEST_SECONDS)).topics
        return [(name, part) for name, topic in listed.items() for part in topic.partitions]

    def check(self, topic_partition: Place) -> None:
        """StatementError unless the partition exists."""
        name, partition = topic_partition
        if partition < self._partitions.get(name, 0):
            return
        found = self._metadata(name)
        deadline = time.monotonic() + _SPREAD_SECONDS
        while found is None and name in self._heard and time.monotonic() < deadline:
            self._admin.poll(PAUSE)
            found = self._metadata(name)
        if found is None:
            self._heard.discard(name)
            raise StatementError(f"There is no topic '{name}'")
        self._partitions[name] = found[0]
        if partition >= found[0]:
            raise StatementError(f"Topic '{name}' has no partition {partition}")

    def offset(self, topic_partition: Place, *, end: bool, committed: bool = True) -> int:
        """The first retained offset, or the one after the last: of committed records, or of all."""
        self.check(topic_partition)
        wanted = TopicPartition(*topic_partition)
        spec = OffsetSpec.latest() if end else OffsetSpec.earliest()
        attempt = (
            f"find the offsets of topic '{topic_partition[0]}', partition {topic_partition[1]}"
        )
        deadline = time.monotonic() + REQUEST_SECONDS
        try:
            # Without a leader, the client may report success and an invalid offset.
            while (
                found := self._spread(
                    topic_partition[0],
                    lambda: self._list_offsets({wanted: spec}, committed=committed)[wanted],
                )
            ).offset < 0:
                if time.monotonic() > deadline:
                    raise UnavailableError(f"Could not {attempt}: it has no leader")
                time.sleep(PAUSE)
        except KafkaException as error:
            raise translated(error, attempt) from error
        return int(found.offset)

    def _spread(self, topic: str, ask: Callable[[], Future[Result]]) -> Result:
        """The response about a topic whose metadata the queried broker may not have yet."""
        deadline = time.monotonic() + _SPREAD_SECONDS
        while True:
            try:
                return answer_to(ask)
            except KafkaException as error:
                late = topic not in self._heard or time.monotonic() > deadline
                if late or not absent(error):
                    raise
            time.sleep(PAUSE)

    def out_of_range(self, topic_partition: Place, offset: int) -> CorruptionError:
        """The reason why no record can be read from a position."""
        start, end = self.offset(topic_partition, end=False), self.offset(topic_partition, end=True)
        where = f"topic '{topic_partition[0]}', partition {topic_partition[1]}"
        if offset < start:
            return CorruptionError(
                f"{where} starts at {start}, but {offset} was asked for:"
                f" {start - offset} records are lost",
                code="E-GAP",
            )
        return CorruptionError(
            f"{where} ends at {end}, but {offset} was asked for: it was truncated",
            code="E-TRUNCATED",
        )

    def ends(self, topic_partitions: Collection[Place]) -> dict[Place, int]:
        """The offsets after the last committed records, for partitions whose brokers respond soon;
        none while an earlier request is open."""
        if not topic_partitions or not all(answer.done() for answer in self._ends.values()):
            return {}
        self._ends = self._list_offsets(
            {
                TopicPartition(*topic_partition): OffsetSpec.latest()
                for topic_partition in topic_partitions
            }
        )
        return _offsets_told(self._ends, _SOON_SECONDS)

    def written(self, topic_partitions: Collection[Place]) -> dict[Place, int]:
        """The offsets after the last records of all; waits for the responses of all brokers."""
        asked = {
            TopicPartition(*topic_partition): OffsetSpec.latest()
            for topic_partition in topic_partitions
        }
        ends = _offsets_told(self._list_offsets(asked, committed=False), REQUEST_SECONDS)
        for topic_partition in topic_partitions:
            if topic_partition not in ends:
                ends[topic_partition] = self.offset(topic_partition, end=True, committed=False)
        return ends

    def look(
        self,
        topic_partitions: Collection[Place],
        answered: Callable[[dict[Place, int]], None],
        *,
        committed: bool,
    ) -> None:
        """Request the ends of what is written, or `committed` alone. `answered` is called from
        another thread with those that were available."""
        found: dict[Place, int | None] = {}

        def done(topic_partition: Place, answer: Future[ListOffsetsResultInfo]) -> None:
            found[topic_partition] = None if answer.exception() else answer.result().offset
            if len(found) == len(topic_partitions):
                answered({at: end for at, end in found.items() if end is not None})

        wanted = {
            TopicPartition(*topic_partition): OffsetSpec.latest()
            for topic_partition in topic_partitions
        }
        asked = self._list_offsets(wanted, committed=committed, seconds=_LOOK_SECONDS)
        for item, answer in asked.items():
            answer.add_done_callback(partial(done, (item.topic, item.partition)))

    def _list_offsets(
        self,
        wanted: dict[TopicPartition, OffsetSpec],
        *,
        committed: bool = True,
        seconds: float = REQUEST_SECONDS,
    ) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
        return self._admin.list_offsets(
            wanted,
            isolation_level=(
                IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
            ),
            request_timeout=seconds,
        )

    def _metadata(self, name: str) -> tuple[int, int] | None:
        """Partitions and replicas. The broker does not create the topic of such a request: clients
        here have `allow.auto.create.topics` off."""
        listed = self._asked(lambda: self._admin.list_topics(name, timeout=REQUEST_SECONDS))
        found = listed.topics.get(name)
        if found is None or found.error is not None or not found.partitions:
            return None
        return len(found.partitions), len(found.partitions[0].replicas)

    def _asked(self, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except KafkaException as error:
            raise translated(error, "ask the Kafka cluster for its topics") from error


def _not_created(name: str, error: KafkaException) -> MillstreamError:
    fault = error.args[0]
    if fault.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return ConflictError(f"A topic named '{name}' exists already")
    if fault.code() == KafkaError.INVALID_CONFIG:
        return StatementError(f"Could not create topic '{name}': {fault.str()}")
    return translated(error, f"create topic '{name}'")


def _offsets_told(
    asked: Mapping[TopicPartition, Future[ListOffsetsResultInfo]], seconds: float
) -> dict[Place, int]:
    """The offsets of the partitions whose answers come in this time and are valid."""
    done, _ = wait(asked.values(), seconds)
    found = {
        (wanted.topic, wanted.partition): answer.result().offset
        for wanted, answer in asked.items()
        if answer in done and answer.exception() is None
    }
    return {topic_partition: offset for topic_partition, offset in found.items() if offset >= 0}

"""Topics of the cluster: made, described, measured and removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
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

from millstream.log.kafka.client import REQUEST_SECONDS, admin_config, translated
from millstream.log.kafka.sightings import Sightings, absent, described
from millstream.log.log import Topic
from millstream.log.log import TopicPartition as Place
from millstream.model.errors import ConflictError, CorruptionError, StatementError, UnavailableError

Result = TypeVar("Result")
_ABSENT = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.GROUP_ID_NOT_FOUND,
    }
)
_UNSETTLED = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
    }
)
_LOST = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT})
"""The broker that was asked has gone, and may have done what it was asked for."""
_PAUSE = 0.01
_LOOK_SECONDS = 2.0


class Topics:
    """The administrative side of a cluster. Calls wait for their answer."""

    def __init__(self, servers: str, extra: Mapping[str, str]) -> None:
        self._admin = AdminClient(admin_config(servers, extra))
        self.sightings = Sightings(self._admin)
        self._partitions: dict[str, int] = {}

    def create(self, topic: Topic) -> None:
        """Make a topic and wait until it can be used."""
        if topic.partitions < 1:
            raise StatementError(f"Topic '{topic.name}' needs at least one partition")
        wanted = NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replicas,
            config=dict(topic.config),
        )
        try:
            _result(lambda: self._admin.create_topics([wanted])[topic.name], repeatable=False)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise ConflictError(f"A topic named '{topic.name}' exists already") from error
            if error.args[0].code() == KafkaError.INVALID_CONFIG:
                raise StatementError(
                    f"Could not create topic '{topic.name}': {error.args[0].str()}"
                ) from error
            raise translated(error, f"create topic '{topic.name}'") from error
        self._until(topic.name, topic.partitions)

    def delete(self, name: str) -> None:
        """Remove a topic and wait until it is gone; no error when there is none."""
        self._partitions.pop(name, None)
        try:
            _result(lambda: self._admin.delete_topics([name])[name])
        except KafkaException as error:
            if error.args[0].code() in _ABSENT:
                return
            raise translated(error, f"delete topic '{name}'") from error
        self._until(name, 0)

    def describe(self, name: str) -> Topic | None:
        """A topic with the settings that differ from the cluster's."""
        found = self._described(name)
        if found is None:
            return None
        resource = ConfigResource(ResourceType.TOPIC, name)
        try:
            settings = _result(lambda: self._admin.describe_configs([resource])[resource])
        except KafkaException as error:
            if error.args[0].code() in _ABSENT:
                return None
            raise translated(error, f"describe topic '{name}'") from error
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        config = {key: item.value for key, item in settings.items() if item.source == own}
        return replace(found, config=config)

    def _described(self, name: str) -> Topic | None:
        asked = TopicCollection([name])
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            try:
                return described(_result(lambda: self._admin.describe_topics(asked)[name]))
            except KafkaException as error:
                if not absent(error):
                    raise translated(error, f"describe topic '{name}'") from error
                # The broker that was asked may not have heard yet of what another one knows.
                if self._metadata(name) is None or time.monotonic() > deadline:
                    return None

    def names(self) -> tuple[str, ...]:
        """All topics but the cluster's own."""
        listed = self._asked(lambda: self._admin.list_topics(timeout=REQUEST_SECONDS))
        return tuple(sorted(name for name in listed.topics if not name.startswith("__")))

    def check(self, place: Place) -> None:
        """StatementError unless the partition exists."""
        name, partition = place
        if partition < self._partitions.get(name, 0):
            return
        found = self._metadata(name)
        if found is None:
            raise StatementError(f"There is no topic '{name}'")
        self._partitions[name] = found[0]
        if partition >= found[0]:
            raise StatementError(f"Topic '{name}' has no partition {partition}")

    def offset(self, place: Place, *, end: bool) -> int:
        """The first retained offset, or the one after the last that is committed."""
        self.check(place)
        wanted = TopicPartition(*place)
        spec = OffsetSpec.latest() if end else OffsetSpec.earliest()
        attempt = f"find the offsets of topic '{place[0]}', partition {place[1]}"
        deadline = time.monotonic() + REQUEST_SECONDS
        try:
            # Without a leader, the client may answer that all is well and the offset not valid.
            while (found := _result(lambda: self._list_offsets({wanted: spec})[wanted])).offset < 0:
                if time.monotonic() > deadline:
                    raise UnavailableError(f"Could not {attempt}: it has no leader")
                time.sleep(_PAUSE)
        except KafkaException as error:
            raise translated(error, attempt) from error
        return int(found.offset)

    def out_of_range(self, place: Place, offset: int) -> CorruptionError:
        """What is wrong with a position that no record can be read from."""
        start, end = self.offset(place, end=False), self.offset(place, end=True)
        where = f"topic '{place[0]}', partition {place[1]}"
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

    def ends(self, places: Collection[Place]) -> dict[Place, int]:
        """The offsets after the last committed records, of those partitions that have answered."""
        found = self._list_offsets(
            {TopicPartition(*place): OffsetSpec.latest() for place in places}
        )
        ends = {}
        for wanted, answer in found.items():
            with suppress(KafkaException):
                offset = answer.result(REQUEST_SECONDS * 2).offset
                if offset >= 0:
                    ends[wanted.topic, wanted.partition] = offset
        return ends

    def look(self, places: Collection[Place], answered: Callable[[dict[Place, int]], None]) -> None:
        """Ask for the ends of what is written, committed or not. `answered` is called from
        another thread, with those that could be told."""
        found: dict[Place, int | None] = {}

        def done(place: Place, answer: Future[ListOffsetsResultInfo]) -> None:
            found[place] = None if answer.exception() else answer.result().offset
            if len(found) == len(places):
                answered({at: end for at, end in found.items() if end is not None})

        wanted = {TopicPartition(*place): OffsetSpec.latest() for place in places}
        asked = self._admin.list_offsets(
            wanted,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=_LOOK_SECONDS,
        )
        for item, answer in asked.items():
            answer.add_done_callback(partial(done, (item.topic, item.partition)))

    def _list_offsets(
        self, wanted: dict[TopicPartition, OffsetSpec]
    ) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
        return self._admin.list_offsets(
            wanted,
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=REQUEST_SECONDS,
        )

    def truncate(self, place: Place, before: int) -> None:
        """Delete the records below an offset."""
        wanted = TopicPartition(*place, before)
        try:
            _result(lambda: self._admin.delete_records([wanted])[wanted])
        except KafkaException as error:
            attempt = f"truncate topic '{place[0]}', partition {place[1]}"
            raise translated(error, attempt) from error

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
            if unsettled.code() not in _UNSETTLED or time.monotonic() > deadline:
                raise translated(unsettled, f"read the positions of '{group}'")
            time.sleep(_PAUSE)

    def _group_offsets(
        self, group: str, wanted: list[TopicPartition] | None
    ) -> list[TopicPartition]:
        def ask() -> Future[ConsumerGroupTopicPartitions]:
            asked = [ConsumerGroupTopicPartitions(group, wanted)]
            return self._admin.list_consumer_group_offsets(
                asked, require_stable=True, request_timeout=REQUEST_SECONDS
            )[group]

        try:
            return list(_result(ask).topic_partitions or ())
        except KafkaException as error:
            if error.args[0].code() in _ABSENT:
                return []
            raise translated(error, f"read the positions of '{group}'") from error

    def forget_group(self, group: str) -> None:
        """Drop a group's positions."""
        try:
            _result(lambda: self._admin.delete_consumer_groups([group])[group])
        except KafkaException as error:
            if error.args[0].code() not in _ABSENT:
                raise translated(error, f"forget the positions of '{group}'") from error

    def _metadata(self, name: str) -> tuple[int, int] | None:
        """Partitions and replicas; asking for a topic by name may have the broker make it, so all
        are listed."""
        listed = self._asked(lambda: self._admin.list_topics(timeout=REQUEST_SECONDS))
        found = listed.topics.get(name)
        if found is None or found.error is not None or not found.partitions:
            return None
        return len(found.partitions), len(found.partitions[0].replicas)

    def _until(self, name: str, partitions: int) -> None:
        """Metadata travels to each broker in its own time."""
        for _ in range(200):
            found = self._metadata(name)
            if (0 if found is None else found[0]) == partitions:
                return
            self._admin.poll(0.02)

    def _asked(self, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except KafkaException as error:
            raise translated(error, "ask the Kafka cluster for its topics") from error


def _result(ask: Callable[[], Future[Result]], *, repeatable: bool = True) -> Result:
    """The answer to a request, asked again while the cluster elects who is to answer, and after
    the loss of the one who was asked if doing it twice is no harm."""
    passing = _UNSETTLED | _LOST if repeatable else _UNSETTLED
    deadline = time.monotonic() + REQUEST_SECONDS
    while True:
        try:
            return ask().result(REQUEST_SECONDS * 2)
        except KafkaException as error:
            if error.args[0].code() not in passing or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE)

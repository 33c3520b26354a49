"""Changes the settings of topics, and tells what topics hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future, wait

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ListOffsetsResultInfo,
    OffsetSpec,
    ResourceType,
)

from millstream.log.kafka.asking import ABSENT, answer_to
from millstream.log.kafka.client import REQUEST_SECONDS, translated
from millstream.log.log import Topic
from millstream.log.usage import TopicUsage
from millstream.model.errors import StatementError

_NOT_ACCEPTED = frozenset({KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST})


def configure(admin: AdminClient, name: str, changes: Mapping[str, str | None]) -> None:
    """Change settings of a topic; None goes back to the cluster's default."""
    entries = [
        ConfigEntry(
            key,
            value,
            incremental_operation=(
                AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            ),
        )
        for key, value in changes.items()
    ]
    wanted = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    try:
        answer_to(lambda: admin.incremental_alter_configs([wanted])[wanted])
    except KafkaException as error:
        fault = error.args[0]
        if fault.code() in _NOT_ACCEPTED:
            raise StatementError(f"Could not change topic '{name}': {fault.str()}") from error
        if fault.code() in ABSENT:
            raise StatementError(f"There is no topic '{name}'") from error
        raise translated(error, f"change topic '{name}'") from error


def usage(admin: AdminClient, topics: Collection[Topic]) -> dict[str, TopicUsage]:
    """What these topics hold: offsets and the oldest time, in three requests for all. Without a
    topic of which a partition does not answer."""
    places = [
        TopicPartition(topic.name, part) for topic in topics for part in range(topic.partitions)
    ]
    starts = _listed(admin, places, OffsetSpec.earliest())
    ends = _listed(admin, places, OffsetSpec.latest())
    oldest = _listed(admin, places, OffsetSpec.for_timestamp(0))
    found = {}
    for topic in topics:
        own = [(topic.name, part) for part in range(topic.partitions)]
        if all(place in starts and place in ends for place in own):
            times = [oldest[place].timestamp for place in own if place in oldest]
            found[topic.name] = TopicUsage(
                tuple(starts[place].offset for place in own),
                tuple(ends[place].offset for place in own),
                oldest=min((time for time in times if time >= 0), default=None),
            )
    return found


def _listed(
    admin: AdminClient, places: Collection[TopicPartition], spec: OffsetSpec
) -> dict[tuple[str, int], ListOffsetsResultInfo]:
    if not places:
        return {}
    asked: dict[TopicPartition, Future[ListOffsetsResultInfo]] = admin.list_offsets(
        dict.fromkeys(places, spec),
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=REQUEST_SECONDS,
    )
    done, _ = wait(asked.values(), REQUEST_SECONDS)
    return {
        (place.topic, place.partition): answer.result()
        for place, answer in asked.items()
        if answer in done and answer.exception() is None
    }

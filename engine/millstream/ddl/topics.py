"""The topics of users that statements need, checked against those that exist."""

from __future__ import annotations

from collections.abc import Iterable

from millstream.catalog.properties import Form, read_properties
from millstream.catalog.source import Source
from millstream.ddl import wordings
from millstream.ddl.effects import CreateTopic, DeleteTopic, Effect
from millstream.ddl.environment import Topics
from millstream.log.log import AS_THE_CLUSTER, Topic
from millstream.model import refusals
from millstream.model.nearest import topic_hint
from millstream.model.schema import SourceKind
from millstream.model.settings import EngineSettings
from millstream.plan.build import Planned
from millstream_parser import statements as s


def refuse_internal(settings: EngineSettings, topic: str, action: str) -> None:
    """StatementError for a statement that would change an internal topic: the engine reads back
    what it wrote there. `action` is for the message."""
    if settings.is_internal(topic):
        raise wordings.INTERNAL_TOPIC(
            action=action,
            topic=topic,
            hint="Use a topic with another name; SHOW ALL TOPICS marks the internal ones.",
        )


def source_topic(
    statement: s.CreateSource, source: Source, topics: Topics, settings: EngineSettings
) -> Topic:
    """The topic of a source: one that is there, as the statement says, or one to create."""
    properties = read_properties(statement.properties, Form.CREATE)
    topic = topics.topic(source.topic)
    if topic is not None:
        return _checked(topic, properties.partitions)
    if properties.partitions is None:
        raise refusals.UNKNOWN_TOPIC(
            topic=source.topic,
            hint=topic_hint(
                source.topic,
                (known.name for known in topics.topics()),
                "Add PARTITIONS=n to the WITH clause to have it made.",
            ),
        )
    refuse_internal(settings, source.topic, "create")
    replicas = properties.replicas or AS_THE_CLUSTER
    return Topic(source.topic, properties.partitions, replicas, _config(source))


def sink_topic(planned: Planned, topics: Topics) -> Topic:
    """The topic of a new sink: one that is there, as the statement says, or one to create, as large
    as that of the first source unless the statement says otherwise."""
    wanted, sink = planned.sink_topic, planned.sink
    assert wanted is not None and sink is not None, "the sink is not new"
    topic, like = topics.topic(wanted.name), topics.topic(wanted.like)
    if topic is not None:
        return _checked(topic, wanted.partitions)
    config = _config(sink)
    if wanted.retention_ms is not None:
        config["retention.ms"] = str(wanted.retention_ms)
    partitions = wanted.partitions or (like.partitions if like else 1)
    replicas = wanted.replicas or (like.replicas if like else AS_THE_CLUSTER)
    return Topic(wanted.name, partitions, replicas, config)


def created(topic: Topic, topics: Topics) -> tuple[CreateTopic, ...]:
    """The effect that there is a topic; none where it is there already."""
    return () if topics.topic(topic.name) is not None else (CreateTopic(topic),)


def _checked(topic: Topic, partitions: int | None) -> Topic:
    if partitions not in (None, topic.partitions):
        raise refusals.TOPIC_DIFFERS(topic=topic.name, there=topic.partitions, wanted=partitions)
    return topic


def _config(source: Source) -> dict[str, str]:
    return {"cleanup.policy": "compact" if source.kind is SourceKind.TABLE else "delete"}


class PlannedTopics:
    """Topics, each asked for once as that takes a broker some ms, and what would become of them by
    the effects of statements that are not executed."""

    def __init__(self, existing: Topics) -> None:
        self._existing = existing
        self._known: dict[str, Topic | None] = {}
        self._changed: dict[str, Topic | None] = {}

    def topic(self, name: str) -> Topic | None:
        """One by its name."""
        if name in self._changed:
            return self._changed[name]
        if name not in self._known:
            self._known[name] = self._existing.topic(name)
        return self._known[name]

    def topics(self) -> tuple[Topic, ...]:
        """All of them."""
        kept = (topic for topic in self._existing.topics() if topic.name not in self._changed)
        return (*kept, *(topic for topic in self._changed.values() if topic is not None))

    def apply(self, effects: Iterable[Effect]) -> None:
        """Note which topics would be made and deleted."""
        for effect in effects:
            match effect:
                case CreateTopic(topic):
                    self._changed[topic.name] = topic
                case DeleteTopic(name):
                    self._changed[name] = None

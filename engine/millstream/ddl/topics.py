"""Checks the user topics that a statement needs against the topics that exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from millstream.catalog.properties import Form, read_properties
from millstream.catalog.source import Source
from millstream.ddl import wordings
from millstream.ddl.effects import CreateTopic, DeleteTopic, Effect
from millstream.ddl.environment import Topics
from millstream.log.log import AS_THE_CLUSTER, Log, Topic
from millstream.model import refusals
from millstream.model.errors import MillstreamError
from millstream.model.nearest import topic_hint
from millstream.model.schema import SourceKind
from millstream.model.settings import EngineSettings
from millstream.plan.build import Planned
from millstream.plan.sinks import NewSource, sink_topic_name
from millstream_parser import statements as s


def refuse_internal(settings: EngineSettings, topic: str, action: str) -> None:
    """Refuse a statement that would change an internal topic, because the engine reads back what it
    wrote there. `action`: the verb of the error message."""
    if settings.is_internal(topic):
        raise wordings.INTERNAL_TOPIC(
            action=action,
            topic=topic,
            hint="Use a topic with another name; SHOW ALL TOPICS marks the internal ones.",
        )


def refuse_missing(topics: Topics, name: str) -> None:
    """Refuse the name of a topic that does not exist, with the nearest one."""
    if topics.topic(name) is None:
        names = (topic.name for topic in topics.topics())
        hint = topic_hint(name, names, "SHOW TOPICS lists the topics; names are case-sensitive.")
        raise refusals.UNKNOWN_TOPIC(topic=name, hint=hint)


def source_topic(
    statement: s.CreateSource, source: Source, topics: Topics, settings: EngineSettings
) -> Topic:
    """The topic of a source: the existing one if it matches the statement, or one to create."""
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
    config = _kept(_config(source, settings), properties.retention_ms)
    return Topic(source.topic, properties.partitions, replicas, config)


def sink_topic(planned: Planned, topics: Topics, settings: EngineSettings) -> Topic:
    """The topic of a new sink: the existing one if it matches the statement, or one to create. A
    new topic has the partitions and replicas of the first source's topic unless the statement
    gives others."""
    wanted, sink = planned.sink_topic, planned.sink
    assert wanted is not None and sink is not None, "the sink is not new"
    topic, like = topics.topic(wanted.name), topics.topic(wanted.like)
    if topic is not None:
        return _checked(topic, wanted.partitions)
    config = _kept(_config(sink, settings), wanted.retention_ms)
    partitions = wanted.partitions or (like.partitions if like else 1)
    replicas = wanted.replicas or (like.replicas if like else AS_THE_CLUSTER)
    return Topic(wanted.name, partitions, replicas, config)


def _kept(config: dict[str, str], retention_ms: int | None) -> dict[str, str]:
    return config if retention_ms is None else {**config, "retention.ms": str(retention_ms)}


def missing_topic(topic: Topic, topics: Topics) -> tuple[CreateTopic, ...]:
    """The effect that creates a topic; none if it exists."""
    return () if topics.topic(topic.name) is not None else (CreateTopic(topic),)


def _checked(topic: Topic, partitions: int | None) -> Topic:
    if partitions not in (None, topic.partitions):
        raise refusals.TOPIC_DIFFERS(topic=topic.name, there=topic.partitions, wanted=partitions)
    return topic


def _config(source: Source, settings: EngineSettings) -> dict[str, str]:
    # Windows end: nobody writes a newer record, or a tombstone, for the keys of old ones.
    of_table = "compact" if source.window is None else "compact,delete"
    policy = "delete" if source.kind is SourceKind.STREAM else of_table
    return {**settings.topic_settings, "cleanup.policy": policy}


def created_topic(statement: s.Statement, settings: Mapping[str, str]) -> str | None:
    """The topic that a statement may create, if it names one correctly."""
    with suppress(MillstreamError):
        match statement:
            case s.CreateAs(kind, name, properties=properties):
                return sink_topic_name(NewSource(kind, name, properties), settings)
    return None


class PlannedTopics:
    """The existing topics, overlaid with the effects of statements that are planned but not
    executed. Each topic is requested from the log once, because a broker takes some ms to respond:
    one of these is for one statement, which sees a topic as it was at its first request.
    """

    def __init__(self, existing: Topics) -> None:
        self._existing = existing
        self._known: dict[str, Topic | None] = {}
        self._changed: dict[str, Topic | None] = {}

    def topic(self, name: str) -> Topic | None:
        """The topic of a name; None if there is none."""
        if name in self._changed:
            return self._changed[name]
        return self._on_log(name)

    def ask(self, log: Log[Any], names: Collection[str]) -> None:
        """Find out in one request which of these topics do not exist."""
        found = log.describe(names)
        self._known |= {name: None for name in names if name not in found}

    def _on_log(self, name: str) -> Topic | None:
        if name not in self._known:
            self._known[name] = self._existing.topic(name)
        return self._known[name]

    def topics(self) -> tuple[Topic, ...]:
        """All topics."""
        unchanged = (topic for topic in self._existing.topics() if topic.name not in self._changed)
        return (*unchanged, *(topic for topic in self._changed.values() if topic is not None))

    def existing(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of these topics that exist on the log, as they were at their first request."""
        found = ((name, self._on_log(name)) for name in names)
        return {name: topic for name, topic in found if topic is not None}

    def apply(self, effects: Iterable[Effect]) -> None:
        """Overlay the topics that effects would create and delete."""
        for effect in effects:
            match effect:
                case CreateTopic(topic):
                    self._changed[topic.name] = topic
                case DeleteTopic(name):
                    self._changed[name] = None

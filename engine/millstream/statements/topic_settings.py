"""Executes ALTER TOPIC: how long records are kept, and a topic's other settings.

An extension: ksqlDB leaves this to Kafka's own tools, which a log in one file does not have. The
topic itself holds the settings, as on Kafka; the catalog does not know them.
"""

from __future__ import annotations

from millstream.ddl.environment import Topics
from millstream.ddl.topics import refuse_internal, refuse_missing
from millstream.model.settings import EngineSettings
from millstream.queries.registry import QueryRegistry
from millstream.query.results import Done
from millstream_parser.statements import AlterTopic


def alter_topic(statement: AlterTopic, registry: QueryRegistry) -> Done:
    """Change the settings of a topic; all of them or none. RESET goes back to what statements
    give a new topic here, and else to the log's own default."""
    check_alterable(statement, registry.log, registry.settings)
    given = registry.settings.topic_settings
    back = {name: given.get(name) for name in statement.reset}
    changes: dict[str, str | None] = {**dict(statement.settings), **back}
    registry.log.configure_topic(statement.topic, changes)
    return Done(f"Topic {statement.topic} altered")


def check_alterable(statement: AlterTopic, topics: Topics, settings: EngineSettings) -> None:
    """Refuse a topic that does not exist, or that is the engine's own."""
    refuse_internal(settings, statement.topic, "alter")
    refuse_missing(topics, statement.topic)

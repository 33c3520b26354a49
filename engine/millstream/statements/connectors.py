"""Executes CREATE, DROP, SHOW and DESCRIBE of connectors, by requests to Kafka Connect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from millstream.catalog.source import Source
from millstream.connectors.connector import Connector, connector_exists, missing_connector
from millstream.query.results import Done, Rows
from millstream.statements import wordings
from millstream.statements.inspect import rows
from millstream_parser.statements import CreateConnector, DropConnector, Listing, Show

if TYPE_CHECKING:
    from millstream.connectors.kafka_connect import KafkaConnect

LISTINGS = (
    Listing.CONNECTORS,
    Listing.SOURCE_CONNECTORS,
    Listing.SINK_CONNECTORS,
    Listing.CONNECTOR_PLUGINS,
)


def configured(connect: KafkaConnect | None) -> KafkaConnect:
    """The client; raises StatementError if there is none."""
    if connect is None:
        raise wordings.CONNECT_MISSING(
            hint="Give kafka_connect to connect(), or ksql.connect.url to the server."
        )
    return connect


def create_connector(statement: CreateConnector, connect: KafkaConnect | None) -> Connector | None:
    """Execute CREATE CONNECTOR; None if there was one, with IF NOT EXISTS. Without, raises
    ConflictError (E-CONNECTOR-EXISTS) for a name in use."""
    config = {key: _text(value) for key, value in statement.properties}
    made = configured(connect).create(statement.name, config)
    if made is None and not statement.if_not_exists:
        raise connector_exists(statement.name)
    return made


def creation(statement: CreateConnector, connect: KafkaConnect | None) -> Done:
    """The same, as the result of a statement."""
    if create_connector(statement, connect) is None:
        return Done(connector_exists(statement.name).message, changed=False)
    return Done(f"Created connector {statement.name}")


def drop_connector(statement: DropConnector, connect: KafkaConnect | None) -> Done:
    """Execute DROP CONNECTOR."""
    name = statement.name
    if configured(connect).drop(name):
        return Done(f"Dropped connector {name}")
    missing = missing_connector(name)
    if statement.if_exists:
        return Done(missing.message, changed=False)
    raise missing


def listed_connectors(listing: Listing, connect: KafkaConnect | None) -> tuple[Connector, ...]:
    """The connectors of a SHOW; none without Kafka Connect."""
    found = () if connect is None else connect.connectors()
    match listing:
        case Listing.SOURCE_CONNECTORS:
            return tuple(connector for connector in found if connector.kind == "source")
        case Listing.SINK_CONNECTORS:
            return tuple(connector for connector in found if connector.kind == "sink")
        case _:
            return found


def show_connectors(statement: Show, connect: KafkaConnect | None) -> Rows:
    """Execute SHOW CONNECTORS and SHOW CONNECTOR PLUGINS."""
    if statement.listing is Listing.CONNECTOR_PLUGINS:
        plugins = configured(connect).plugins()
        listed = [(plugin.class_name, plugin.kind.upper(), plugin.version) for plugin in plugins]
        return rows(("Class", "Type", "Version"), listed)
    found = listed_connectors(statement.listing, configured(connect))
    return rows(
        ("Connector Name", "Type", "Class", "Status"),
        [(each.name, each.kind.upper(), each.class_name, each.summary) for each in found],
    )


def existing_connector(name: str, connect: KafkaConnect | None) -> Connector:
    """The connector that DESCRIBE names; raises StatementError if there is none."""
    found = configured(connect).connector(name)
    if found is None:
        raise missing_connector(name)
    return found


def describe_connector(name: str, connect: KafkaConnect | None, sources: Iterable[Source]) -> Rows:
    """Execute DESCRIBE CONNECTOR: `sources` are those of the catalog."""
    found = existing_connector(name, connect)
    facts = [
        ("Name", found.name),
        ("Class", found.class_name),
        ("Type", found.kind),
        ("State", found.state),
        ("WorkerId", found.worker),
        *((("Trace", found.trace),) if found.trace else ()),
        *((f"Task {task.number}", f"{task.state} {task.trace}".strip()) for task in found.tasks),
        *(("Topic", topic) for topic in found.topics),
        *(("Source", source.name) for source in sources if source.topic in found.topics),
    ]
    return rows(("Property", "Value"), facts)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""Executes CREATE, DROP, SHOW and DESCRIBE of connectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from millstream.catalog.source import Source
from millstream.connectors import wordings
from millstream.connectors.connector import (
    Connector,
    Connectors,
    connector_exists,
    missing_connector,
)
from millstream.connectors.datagen import normal
from millstream.model.errors import StatementError
from millstream.plan.places import span_of
from millstream.query.results import Done, Rows
from millstream.statements.inspect import rows
from millstream_parser.statements import CreateConnector, DropConnector, Listing, PropertyName, Show

LISTINGS = (
    Listing.CONNECTORS,
    Listing.SOURCE_CONNECTORS,
    Listing.SINK_CONNECTORS,
    Listing.CONNECTOR_PLUGINS,
)


def configured(connectors: Connectors | None) -> Connectors:
    """Where connectors are; raises StatementError if there is none."""
    if connectors is None:
        raise wordings.CONNECT_MISSING(hint=wordings.ELSEWHERE)
    return connectors


def create_connector(statement: CreateConnector, connectors: Connectors | None) -> Connector | None:
    """Execute CREATE CONNECTOR; None if there was one, with IF NOT EXISTS. Without, raises
    ConflictError (E-CONNECTOR-EXISTS) for a name in use."""
    with _placed(statement):
        made = configured(connectors).create(statement.name, _config(statement))
    if made is None and not statement.if_not_exists:
        raise connector_exists(statement.name)
    return made


def check_connector(statement: CreateConnector, connectors: Connectors | None) -> None:
    """Raise StatementError if CREATE CONNECTOR is wrong, without a request to Kafka Connect."""
    with _placed(statement):
        configured(connectors).check(statement.name, _config(statement))


def _config(statement: CreateConnector) -> dict[str, str]:
    return {key: _text(value) for key, value in statement.properties}


@contextmanager
def _placed(statement: CreateConnector) -> Iterator[None]:
    """Errors about a setting point to it, whether or not its short name was given."""
    try:
        yield
    except StatementError as error:
        setting = error.parameters.get("setting")
        for name, value in statement.properties:
            if setting in normal({name: _text(value)}) and isinstance(name, PropertyName):
                error.span = span_of(name.span)
        raise


def creation(statement: CreateConnector, connectors: Connectors | None) -> Done:
    """The same, as the result of a statement."""
    if create_connector(statement, connectors) is None:
        return Done(connector_exists(statement.name).message, changed=False)
    return Done(f"Created connector {statement.name}")


def drop_connector(statement: DropConnector, connectors: Connectors | None) -> Done:
    """Execute DROP CONNECTOR."""
    name = statement.name
    if configured(connectors).drop(name):
        return Done(f"Dropped connector {name}")
    missing = missing_connector(name)
    if statement.if_exists:
        return Done(missing.message, changed=False)
    raise missing


def listed_connectors(listing: Listing, connectors: Connectors | None) -> tuple[Connector, ...]:
    """The connectors of a SHOW; none where there cannot be any."""
    found = () if connectors is None else connectors.connectors()
    match listing:
        case Listing.SOURCE_CONNECTORS:
            return tuple(connector for connector in found if connector.kind == "source")
        case Listing.SINK_CONNECTORS:
            return tuple(connector for connector in found if connector.kind == "sink")
        case _:
            return found


def show_connectors(statement: Show, connectors: Connectors | None) -> Rows:
    """Execute SHOW CONNECTORS and SHOW CONNECTOR PLUGINS."""
    if statement.listing is Listing.CONNECTOR_PLUGINS:
        plugins = configured(connectors).plugins()
        listed = [(plugin.class_name, plugin.kind.upper(), plugin.version) for plugin in plugins]
        return rows(("Class", "Type", "Version"), listed)
    found = listed_connectors(statement.listing, configured(connectors))
    return rows(
        ("Connector Name", "Type", "Class", "Status"),
        [(each.name, each.kind.upper(), each.class_name, each.summary) for each in found],
    )


def existing_connector(name: str, connectors: Connectors | None) -> Connector:
    """The connector that DESCRIBE names; raises StatementError if there is none."""
    found = configured(connectors).connector(name)
    if found is None:
        raise missing_connector(name)
    return found


def describe_connector(name: str, connectors: Connectors | None, sources: Iterable[Source]) -> Rows:
    """Execute DESCRIBE CONNECTOR: `sources` are those of the catalog."""
    found = existing_connector(name, connectors)
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

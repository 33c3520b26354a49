"""The entities of statements about connectors."""

from __future__ import annotations

from typing import Any

from millstream.connectors.connector import Connector
from millstream.statements.connectors import existing_connector, listed_connectors
from millstream_parser.statements import Listing
from millstream_server.bootstrap.secret import MASK, is_secret_key
from millstream_server.entities.described import source_description
from millstream_server.entities.view import View

Entity = dict[str, Any]


def connector_plugins(view: View) -> Entity:
    """SHOW CONNECTOR PLUGINS; there are none where there cannot be connectors."""
    connectors = view.engine.connectors
    found = () if connectors is None else connectors.plugins()
    plugins = [
        {"className": plugin.class_name, "type": plugin.kind, "version": plugin.version}
        for plugin in found
    ]
    return {"@type": "connector_plugins_list", "connectorsPlugins": plugins}


def connector_list(listing: Listing, view: View) -> Entity:
    """SHOW CONNECTORS, of those that may be seen."""
    found = [
        {
            "name": connector.name,
            "type": connector.kind,
            "className": connector.class_name,
            "state": connector.summary,
        }
        for connector in listed_connectors(listing, view.engine.connectors)
        if view.sight.connector(connector.name)
    ]
    return {"@type": "connector_list", "connectors": found}


def connector_description(name: str, text: str, view: View) -> Entity:
    """DESCRIBE CONNECTOR, with the sources on its topics that may be seen."""
    found = existing_connector(name, view.engine.connectors)
    sources = [
        source_description(source, view, extended=False)
        for source in view.engine.catalog.every().values()
        if source.topic in found.topics and view.sight.source(source.name)
    ]
    return {
        "@type": "connector_description",
        "statementText": text,
        "connectorClass": found.class_name,
        "status": {
            "name": found.name,
            "connector": {
                "state": found.state,
                "worker_id": found.worker,
                "trace": found.trace or None,
            },
            "tasks": [
                {
                    "id": task.number,
                    "state": task.state,
                    "worker_id": task.worker,
                    "trace": task.trace or None,
                }
                for task in found.tasks
            ],
            "type": found.kind,
        },
        "sources": sources,
        "topics": list(found.topics),
        "warnings": [],
    }


def connector_info(text: str, connector: Connector) -> Entity:
    """A connector that was created; its secrets are not repeated."""
    return {
        "@type": "connector_info",
        "statementText": text,
        "info": {
            "name": connector.name,
            "config": {
                key: MASK if is_secret_key(key) else value
                for key, value in connector.config.items()
            },
            "tasks": [
                {"connector": connector.name, "task": task.number} for task in connector.tasks
            ],
            "type": connector.kind,
        },
        "warnings": [],
    }


def connector_dropped(text: str, name: str) -> Entity:
    """DROP CONNECTOR."""
    return {
        "@type": "drop_connector",
        "statementText": text,
        "connectorName": name,
        "warnings": [],
    }

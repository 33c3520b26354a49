"""What statements about connectors are refused with."""

from __future__ import annotations

from millstream.model.refusals import ConflictTemplate, Template, templates_in

CONNECT_MISSING = Template("Connectors need Kafka Connect, which is not configured")
CONNECTOR_INVALID = Template("Connector '{name}' cannot be created: '{setting}' {problem}.")
UNKNOWN_CONNECTOR = Template("Connector '{name}' does not exist.")
CONNECTOR_TAKEN = ConflictTemplate("Connector '{name}' exists already.")
ELSEWHERE = (
    "Give kafka_connect to connect(), or ksql.connect.url to the server, for the connectors of"
    " Kafka Connect."
)
"""A hint where there is no Kafka Connect."""

TEMPLATES = templates_in(globals())
"""All of them by name."""

"""Which Kafka Connect a database has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.model.settings import ConnectSettings

if TYPE_CHECKING:
    from millstream.connectors.kafka_connect import KafkaConnect


def open_connect(settings: ConnectSettings | None) -> KafkaConnect | None:
    """The client of Kafka Connect; None if none is configured. Raises StatementError for a URL that
    cannot be used."""
    if settings is None:
        return None
    # Most databases need no client, and httpx takes as long to import as a small one to open.
    from millstream.connectors.kafka_connect import KafkaConnect

    return KafkaConnect(settings)

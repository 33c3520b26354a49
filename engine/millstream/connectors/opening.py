"""Which connectors a database has."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from millstream.connectors.connector import Connectors
from millstream.connectors.embedded import EmbeddedConnectors, Output
from millstream.log.log import Log
from millstream.model.settings import EngineSettings


def open_connectors(
    settings: EngineSettings,
    log: Log[pa.Table],
    output: Output,
    clock: Callable[[], int],
    *,
    shared: bool,
) -> Connectors | None:
    """Those of the Kafka Connect that the settings name, or else those in this process; None for a
    log that is `shared` with other instances, which has none within. Raises StatementError for a
    URL that cannot be used."""
    if settings.kafka_connect is None:
        topic = f"{settings.internal_prefix}connectors"
        return None if shared else EmbeddedConnectors(log, topic, output, clock)
    # Most databases need no client, and httpx takes as long to import as a small one to open.
    from millstream.connectors.kafka_connect import KafkaConnect

    return KafkaConnect(settings.kafka_connect)

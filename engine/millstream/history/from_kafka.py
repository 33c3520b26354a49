"""Splits of Kafka topics, read by our own reader in the process that runs the task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from millstream.history.reading import ReadChunk, read_through
from millstream.history.splits import Split


@dataclass(frozen=True, slots=True)
class FromKafka:
    """Reads committed records, and stops by position: the last offsets of a split may be
    transaction markers. Implements `reading.Source`."""

    servers: str
    settings: Mapping[str, str] = field(default_factory=dict)
    """More settings of the client, such as `security.protocol`."""

    def pieces(self, split: Split) -> Iterator[ReadChunk]:
        """See `Source`. Raises UnavailableError when the cluster does not respond."""
        # Not every process that runs tasks has the client.
        from millstream.log.kafka.log import KafkaLog

        log = KafkaLog(self.servers, settings=self.settings)
        try:
            yield from read_through(log.read, split)
        finally:
            log.close()

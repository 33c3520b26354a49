"""Several readers of one partition, each at a place of its own.

A consumer follows a partition at one place only. Queries that read the same topic are mostly at
different places, so each gets a consumer that goes on where it left off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa

from millstream.log.kafka.reader import Reader
from millstream.log.log import Fetched
from millstream.log.log import TopicPartition as Place

READERS_MAX = 16
"""From so many on, a further place of a partition takes over a reader that is at another."""


class Readers:
    """As many readers as there are different places at which one partition is read."""

    def __init__(self, make: Callable[[], Reader]) -> None:
        self._make = make
        self._readers: list[Reader] = []
        self._lock = threading.Lock()

    def read(self, topic: str, partition: int, offset: int, max_records: int) -> Fetched[pa.Table]:
        """See `Reader.read`."""
        reader = self._chosen((topic, partition), offset)
        return reader.read(topic, partition, offset, max_records)

    def forget(self, topic: str) -> None:
        """Stop reading a topic that is deleted."""
        with self._lock:
            for reader in self._readers:
                reader.forget(topic)

    def close(self) -> None:
        """Close them all."""
        for reader in self._readers:
            reader.close()

    def _chosen(self, place: Place, offset: int) -> Reader:
        """The one that is there already, else one that does not read the partition, else a new
        one, else the one that was taken over longest ago."""
        with self._lock:
            free: Reader | None = None
            for reader in self._readers:
                follows = reader.follows(place)
                if follows == offset:
                    return reader
                if follows is None and free is None:
                    free = reader
            if free is None and len(self._readers) < READERS_MAX:
                free = self._make()
                self._readers.append(free)
            if free is None:
                free = self._readers.pop(0)
                self._readers.append(free)
            return free

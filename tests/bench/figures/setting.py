"""What a measuring process is given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import millstream
from tests.bench.figures.catalogue import Scale


@dataclass(frozen=True, slots=True)
class Setting:
    """`folder`: for its files. `wanted`: the names of the figures. `servers`: the brokers, empty
    without Kafka. `service`: the service id there, which no other process has."""

    folder: Path
    scale: Scale
    wanted: frozenset[str]
    servers: str = ""
    service: str = ""

    @property
    def prefix(self) -> str:
        """How the names of the topics on Kafka begin, so that they can be deleted."""
        return f"{self.service}-" if self.servers else ""

    def connect(self, name: str = "bench.db") -> millstream.Database:
        """Open a database in the folder."""
        path = str(self.folder / name)
        if not self.servers:
            return millstream.connect(path)
        return millstream.connect(path, kafka=self.servers, service_id=self.service)

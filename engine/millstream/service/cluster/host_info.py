"""What an engine is among others: where it is, and who works on the queries of its service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from millstream.service.cluster.metadata import InstanceMetadata, PeerView


@dataclass(frozen=True, slots=True)
class PeerHost:
    """Another instance of the service. `heard_at`: when it last spoke, in ms since 1970."""

    presence: InstanceMetadata
    alive: bool
    heard_at: int

    @property
    def host(self) -> str:
        """The "name:port" it goes by: of its server, else of its exchange."""
        return self.presence.host or self.presence.address or self.presence.instance


def _nobody() -> Sequence[PeerHost]:
    return ()


@dataclass(slots=True)
class HostInfo:
    """`cluster_id`: of the log, the same for all who share it. `host`: "name:port" of the server
    that this engine answers through, "" where there is none."""

    cluster_id: str = ""
    host: str = ""
    neighbours: Callable[[], Sequence[PeerHost]] = _nobody


def neighbours(
    live: Iterable[PeerView], silent: Iterable[PeerView], age: Callable[[PeerView], int], now: int
) -> tuple[PeerHost, ...]:
    """The others, once each: one that lives again is not dead. `age`: ms since a sighting."""
    found = {}
    for alive, sightings in ((False, silent), (True, live)):
        for sighting in sightings:
            name = sighting.presence.instance
            found[name] = PeerHost(sighting.presence, alive, now - age(sighting))
    return tuple(found[name] for name in sorted(found))

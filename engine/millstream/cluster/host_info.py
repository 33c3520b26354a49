"""The host of this engine, and the hosts of the other instances of its service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from millstream.cluster.metadata import InstanceMetadata, PeerView


@dataclass(frozen=True, slots=True)
class PeerHost:
    """Another instance of the service. `last_seen`: the time of its last heartbeat (ms since
    1970)."""

    metadata: InstanceMetadata
    alive: bool
    last_seen: int

    @property
    def host(self) -> str:
        """The instance's "name:port": of its HTTP server, else of its exchange."""
        return self.metadata.host or self.metadata.address or self.metadata.instance


def _no_peers() -> Sequence[PeerHost]:
    return ()


@dataclass(slots=True)
class HostInfo:
    """The place of this engine in its service.

    `cluster_id`: the id of the log, the same for all its clients. `host`: "name:port" of this
    engine's HTTP server, "" if it has none. `peers`: returns the other instances.
    """

    cluster_id: str = ""
    host: str = ""
    peers: Callable[[], Sequence[PeerHost]] = _no_peers


def peer_hosts(
    live: Iterable[PeerView], expired: Iterable[PeerView], age: Callable[[PeerView], int], now: int
) -> tuple[PeerHost, ...]:
    """The other instances, once each: a restarted one counts as alive. `age`: ms since its last
    heartbeat; `now`: ms since 1970."""
    hosts = {}
    for alive, views in ((False, expired), (True, live)):
        for view in views:
            name = view.metadata.instance
            hosts[name] = PeerHost(view.metadata, alive, now - age(view))
    return tuple(hosts[name] for name in sorted(hosts))

"""Connects an engine to the other instances of its service: heartbeats, routing and exchange."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from millstream.cluster.cluster import Cluster
from millstream.cluster.exchange import Exchange
from millstream.cluster.host_info import PeerHost, peer_hosts
from millstream.cluster.membership import SESSION_MS, PeerMembership
from millstream.cluster.metadata import HostedPartitions, InstanceMetadata, PeerView
from millstream.cluster.participant import Participations
from millstream.cluster.routing import Router
from millstream.cluster.scatter_gather import serve_read
from millstream.model.errors import MillstreamError, StatementError
from millstream.model.listener import InternalListener

HEARTBEAT_S = 0.5


def monotonic_ms() -> int:
    """Milliseconds of the monotonic clock, which is never adjusted."""
    return time.monotonic_ns() // 1_000_000


def _no_action() -> None:
    return None


class MembershipThread:
    """Sends the heartbeats of this instance, reads those of its peers, and fences dead peers. It
    has a thread of its own, because all of these may block on the log."""

    def __init__(
        self,
        membership: PeerMembership,
        metadata: Callable[[], InstanceMetadata],
        clock: Callable[[], int] = monotonic_ms,
        rack: str = "",
    ) -> None:
        """`metadata`: returns the current metadata of this instance. `rack`: where it runs."""
        self._membership = membership
        self.metadata = metadata
        self.rack = rack
        self._clock = clock
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.live: tuple[PeerView, ...] = ()
        """The live peers, as of the last heartbeat."""
        self.expired: tuple[PeerView, ...] = ()
        """The dead peers, as of the last heartbeat."""
        self.superseded = False
        """Whether a later incarnation of the same instance name has started."""
        self.on_heartbeat: Callable[[], None] = _no_action
        """Called after each successful heartbeat."""

    def heartbeat(self) -> None:
        """Publish if due, read the peers' heartbeats and fence dead peers; UnavailableError if the
        log does not respond."""
        self._membership.publish(self.metadata(), self._clock())
        self._membership.refresh(self._clock())
        self.live = self._membership.live()
        self.expired = self._membership.expired()
        self.superseded = self._membership.superseded()
        while self._membership.fence_dead():
            self._membership.publish(self.metadata(), self._clock())
        self.on_heartbeat()

    def instances(self) -> frozenset[str]:
        """The names of the live instances, including this one."""
        return frozenset(
            {self._membership.instance, *(view.metadata.instance for view in self.live)}
        )

    def peers(self, now: int) -> tuple[PeerHost, ...]:
        """The other instances; `now`: ms since 1970."""
        steady = self._clock()
        return peer_hosts(self.live, self.expired, lambda view: steady - view.seen_at, now)

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="millstream-peers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and remove this instance from the topic; idempotent."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._membership.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.heartbeat()
            except MillstreamError as error:
                logging.getLogger("millstream").warning(f"the heartbeat failed: {error}")
            self._stopping.wait(HEARTBEAT_S)


def join_peers(
    cluster: Cluster,
    instance: str,
    listener: InternalListener,
    *,
    hosted: Callable[[str], HostedPartitions],
    writers: Callable[[], tuple[str, ...]],
    incarnation: str = "",
    session_ms: int = SESSION_MS,
    rack: str = "",
) -> MembershipThread:
    """Make this process an instance of its service. The caller starts the returned thread;
    `Engine.close` stops it.

    `hosted`: returns the current partitions of a query, by its id. A partition must become inactive
    before the instance gives it up, and active only when it is complete. `writers`: returns the
    identities of the instance's transactional writers. Both are called by several threads. The
    default token is the id of the command topic, which is enough for instances on one machine.
    """
    if not listener.token:
        if not listener.loopback:
            raise StatementError(
                f"Instances that listen at {listener.address} need a token that they share",
                hint="Every client of the cluster can read the default token from its metadata.",
            )
        topic = cluster.registry.log.topic(cluster.registry.settings.command_topic)
        listener = replace(listener, token="" if topic is None else topic.id)
    incarnation = incarnation or uuid.uuid4().hex
    prefix = cluster.registry.settings.internal_prefix
    peers = PeerMembership(
        cluster.registry.log, prefix, instance, incarnation, session_ms=session_ms
    )
    snapshots = Participations(cluster)
    exchange = Exchange(
        listener, lambda request: serve_read(cluster, request, snapshots), snapshots.execute
    )

    def metadata() -> InstanceMetadata:
        queries = {
            query_id: hosted(query_id) for query_id in list(cluster.registry.catalog.queries)
        }
        return InstanceMetadata(
            instance,
            incarnation,
            exchange.address,
            queries,
            writers(),
            host=cluster.host_info.host,
            states=cluster.registry.states(),
            rack=rack,
        )

    membership = MembershipThread(peers, metadata, rack=rack)
    cluster.routing = Router(
        hosted, lambda: membership.live, exchange.fetch, exchange.send, incarnation
    )
    cluster.host_info.peers = lambda: membership.peers(cluster.clock())
    cluster.on_close += [membership.close, exchange.close, snapshots.close]
    return membership

"""An engine as one instance of a service: seen by the others, seeing them, and asked by them."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from millstream.model.errors import MillstreamError, StatementError
from millstream.model.listener import InternalListener
from millstream.service.cluster.exchange import Exchange
from millstream.service.cluster.host_info import PeerHost, neighbours
from millstream.service.cluster.membership import SESSION_MS, PeerMembership
from millstream.service.cluster.metadata import Held, InstanceMetadata, PeerView
from millstream.service.cluster.participant import Participations
from millstream.service.cluster.routing import Router
from millstream.service.cluster.scatter_gather import answer
from millstream.service.engine import Engine

BEAT_S = 0.5


def steady_ms() -> int:
    """Milliseconds of a clock that nobody sets."""
    return time.monotonic_ns() // 1_000_000


def _nothing() -> None:
    return None


class Sharing:
    """Presents this instance, hears of the others and settles the dead, in a thread of its own: all
    of that may wait for the log."""

    def __init__(
        self,
        peers: PeerMembership,
        presence: Callable[[], InstanceMetadata],
        clock: Callable[[], int] = steady_ms,
    ) -> None:
        """`presence`: what this instance is to say of itself now."""
        self._peers = peers
        self.presence = presence
        self._clock = clock
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self.live: tuple[PeerView, ...] = ()
        """The others, as of the last beat."""
        self.silent: tuple[PeerView, ...] = ()
        """Those that were dead at the last beat."""
        self.superseded = False
        """Whether another one of our name was started after us."""
        self.on_beat: Callable[[], None] = _nothing
        """Called by each beat that has heard the others."""

    def beat(self) -> None:
        """Say what is due, and hear; UnavailableError when the log does not answer."""
        self._peers.publish(self.presence(), self._clock())
        try:
            self._peers.refresh(self._clock())
        finally:
            self.live = self._peers.live()
            self.silent = self._peers.silent()
            self.superseded = self._peers.superseded()
            # Where nothing can be heard, settling is what may change that.
            while self._peers.settle(self._clock()):
                self._peers.publish(self.presence(), self._clock())
        self.on_beat()

    def instances(self) -> frozenset[str]:
        """The names of the instances that live, this one included."""
        return frozenset({self._peers.instance, *(s.presence.instance for s in self.live)})

    def neighbours(self, now: int) -> tuple[PeerHost, ...]:
        """The others; `now`: ms since 1970."""
        steady = self._clock()
        return neighbours(self.live, self.silent, lambda seen: steady - seen.at, now)

    def changed(self) -> None:
        """What this instance holds has changed: the others are told at once."""
        self._wake.set()

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="millstream-peers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take leave of the others; idempotent."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._peers.close()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                self.beat()
            except MillstreamError as error:
                logging.getLogger("millstream").warning(f"no word with the others: {error}")
            self._wake.wait(BEAT_S)


def share(
    engine: Engine,
    instance: str,
    door: InternalListener,
    *,
    held: Callable[[str], Held],
    writers: Callable[[], tuple[str, ...]],
    incarnation: str = "",
    session_ms: int = SESSION_MS,
) -> Sharing:
    """Make an engine an instance of its service; `Engine.close` ends it. The caller starts it.

    `held`: what is on this instance of a query, by its id, at this moment: a partition is no
    longer active before it is given up, and not active before all of it is there. `writers`: the
    identities that it writes transactions by. Both are called by several threads. Without a token
    the id of the command topic is one, which is enough for those on one machine.
    """
    if not door.token:
        if not door.loopback:
            raise StatementError(
                f"Instances that listen at {door.address} need a token that they share",
                hint="The default one is known to whoever can read the cluster's metadata.",
            )
        topic = engine.log.topic(engine.settings.command_topic)
        door = replace(door, token="" if topic is None else topic.id)
    incarnation = incarnation or uuid.uuid4().hex
    prefix = engine.settings.internal_prefix
    peers = PeerMembership(engine.log, prefix, instance, incarnation, session_ms=session_ms)
    snapshots = Participations(engine)
    exchange = Exchange(door, lambda ask: answer(engine, ask, snapshots), snapshots.do)

    def presence() -> InstanceMetadata:
        queries = {query_id: held(query_id) for query_id in list(engine.catalog.queries)}
        return InstanceMetadata(
            instance,
            incarnation,
            exchange.address,
            queries,
            writers(),
            host=engine.host_info.host,
            states=engine.states(),
        )

    sharing = Sharing(peers, presence)
    engine.routing = Router(held, lambda: sharing.live, exchange.fetch, exchange.send, incarnation)
    engine.host_info.neighbours = lambda: sharing.neighbours(engine.clock())
    engine.on_close += [sharing.close, exchange.close, snapshots.close]
    return sharing

"""A server in this process for one test: an engine with its threads, and a port of its own."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from millstream.service.engine import Engine
from millstream_server.auth.guard import Guard
from millstream_server.bootstrap.addresses import Address
from millstream_server.http.admission import Admission
from millstream_server.http.listening import Other, Tls, bind, serve
from millstream_server.http.transport import Transport
from millstream_server.postgres.connections import PostgresConnections, PostgresLimits
from millstream_server.routes import application
from millstream_server.server import Server, ServerSettings

SOCKET_BYTES = 64 << 10
"""What a connection holds at each end: without a bound it grows to megabytes, on each machine to
others, and what a client is sent that does not read is there."""
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""What clients of `http://` verify with: reading the certificates of all authorities takes each
client longer than a server takes to start. This context has none of them."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs."""

    server: Server
    url: str
    postgres: int = 0
    """The port for PostgreSQL's protocol, 0 for none."""


@contextmanager
def served(
    engine: Engine,
    properties: Mapping[str, str] | None = None,
    *,
    settings: ServerSettings | None = None,
    guard: Guard | None = None,
    tls: Tls | None = None,
    patience_s: float = 60.0,
    transport: Transport | None = None,
    postgres: PostgresLimits | None = None,
) -> Iterator[Served]:
    """Serve an engine on a free port of this machine; the engine is not closed in the end. With
    `postgres` it also has a port for PostgreSQL's protocol, with these limits."""
    server = Server(engine, settings or ServerSettings(properties=properties or {}), guard)
    listener = bind(Address("127.0.0.1", 0, tls is not None), patience_s=patience_s)
    # Those it accepts have it too.
    listener.bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    url = listener.url
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    context = tls.context() if tls else None
    shown = None if context is None else (lambda: context)
    admission = Admission((transport or Transport()).limits)
    others = []
    if postgres is not None:
        other = bind(Address("127.0.0.1", 0, tls is not None), patience_s=patience_s)
        other.bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        connections = PostgresConnections(server, admission, postgres, shown)
        others.append(Other(other, connections.opened, connections.end))
    port = others[0].listener.address[1] if others else 0
    serving = serve(application(server), [listener], stop.wait, shown, transport, others, admission)
    thread = threading.Thread(target=_run, args=(loop, serving), daemon=True)
    thread.start()
    try:
        yield Served(server, url, port)
    finally:
        server.close()
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def _run(loop: asyncio.AbstractEventLoop, serving: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(serving)

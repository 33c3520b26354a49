"""Who answers a connection: uvicorn what speaks plain HTTP/1.1, Hypercorn HTTP/2 and upgrades."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from email.utils import formatdate
from enum import Enum
from functools import partial
from typing import Any, cast

from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.utils import wrap_app
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config as PlainConfig
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from millstream_server.wire.protocols import Answering
from millstream_server.wire.written import Written

PEER = "millstream.peer"
"""Where a scope has the certificate that its client has shown, None for none."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD_END = b"\r\n\r\n"
_LOG = logging.getLogger("millstream.server.connections")


class Speaks(Enum):
    """What the first bytes of a connection say."""

    PLAIN = "HTTP/1.1"
    OTHER = "HTTP/2, or a request to change to another protocol"


def spoken(seen: bytes) -> Speaks | None:
    """What a connection that begins with `seen` speaks; None while that cannot be told."""
    if _PREFACE.startswith(seen[: len(_PREFACE)]):
        return Speaks.OTHER if len(seen) >= len(_PREFACE) else None
    head, end, _ = seen.partition(_HEAD_END)
    if not end:
        return None
    return Speaks.OTHER if b"\r\nupgrade:" in head.lower() else Speaks.PLAIN


@dataclass(frozen=True, slots=True)
class Transport:
    """Bounds on connections."""

    connections_max: int = 1_000
    headers_bytes_max: int = 16 << 10
    idle_seconds: float = 86_400


@dataclass(frozen=True, slots=True)
class _Shown:
    """The application, told of the certificate that a connection's client has shown."""

    app: ASGIApp
    peer: object

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[PEER] = self.peer
        await self.app(scope, receive, send)


class Connections:
    """All connections of a server, and the two servers that answer them. Hypercorn's own would
    neither bound their number nor tell the application of the client's certificate, and waits
    without end for clients that do not read."""

    def __init__(self, app: ASGIApp, transport: Transport) -> None:
        self._app = app
        self._most = transport.connections_max
        self.headers_bytes_max = transport.headers_bytes_max
        self._config = _config(transport)
        self._context = WorkerContext(None)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: set[Connection] = set()
        """Those that have not said yet what they speak."""
        self._plain = PlainConfig(
            cast(Any, app),
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=int(transport.idle_seconds),
        )
        self._plain.load()
        self._state = ServerState()

    def opened(self) -> Connection:
        """The protocol of a new connection."""
        return Connection(self)

    def admit(self, connection: Connection) -> bool:
        """Count a new connection; False when there are too many."""
        count = len(self._waiting) + len(self._tasks) + len(self._state.connections)
        if count >= self._most:
            return False
        self._waiting.add(connection)
        return True

    def decided(self, connection: Connection) -> None:
        """It has said what it speaks, or is gone."""
        self._waiting.discard(connection)

    def plain(self, peer: object) -> HttpToolsProtocol:
        """What answers HTTP/1.1 on a connection whose client has shown the certificate `peer`."""
        protocol = HttpToolsProtocol(self._plain, self._state, {})
        protocol.app = cast(Any, _Shown(self._app, peer))
        protocol.logger, protocol.access_log = _LOG, False
        return protocol

    async def other(
        self, peer: object, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer everything else, to the end of the connection."""
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        loop = asyncio.get_running_loop()
        app = wrap_app(cast(Any, _Shown(self._app, peer)), 0, "asgi")
        try:
            await Answering(app, loop, self._config, self._context, {}, reader, writer)
        except* KeyError:
            # What comes on a stream that was answered already makes Hypercorn fall over.
            _LOG.debug("A connection ended that sent more than was read", exc_info=True)

    async def tell_time(self) -> None:
        """Keep the `date` of answers true, without end."""
        while True:
            self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
            await asyncio.sleep(1)

    async def end(self, patience_s: float) -> None:
        """Let answers end that end soon, then cut the others off."""
        await self._context.terminated.set()
        for waiting in tuple(self._waiting):
            waiting.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        for _ in range(2):
            left = [*self._tasks, *self._state.tasks]
            if left:
                await asyncio.wait(left, timeout=patience_s)
            for task in left:
                task.cancel()


def _config(transport: Transport) -> Config:
    config = Config()
    config.keep_alive_timeout = transport.idle_seconds
    config.h11_max_incomplete_size = transport.headers_bytes_max
    config.h2_max_header_list_size = transport.headers_bytes_max
    config.include_server_header = False
    config.errorlog = _LOG
    config.accesslog = None
    return config


class Connection(asyncio.Protocol):
    """One connection: looks at its first bytes, and passes all on to whom they are for."""

    def __init__(self, all_of_them: Connections) -> None:
        self._connections = all_of_them
        self._seen = b""
        self._inner: HttpToolsProtocol | None = None
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        if not self._connections.admit(self):
            self._transport.close()
            return
        secure = transport.get_extra_info("ssl_object")
        self._peer = None if secure is None else secure.getpeercert()
        if secure is not None and secure.selected_alpn_protocol() == "h2":
            self._hand_over()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._inner is not None:
            self._pass(self._inner, data)
            return
        self._seen += data
        match spoken(self._seen):
            case Speaks.PLAIN:
                self._inner = self._connections.plain(self._peer)
                self._inner.connection_made(Written(self._transport, asyncio.get_running_loop()))
                self._connections.decided(self)
                self._pass(self._inner, self._seen)
                self._seen = b""
            case Speaks.OTHER:
                self._hand_over()
            case None if len(self._seen) > self._connections.headers_bytes_max:
                self._transport.close()

    def _pass(self, inner: HttpToolsProtocol, data: bytes) -> None:
        before = inner.cycle
        inner.data_received(data)
        cycle = inner.cycle
        between = cycle is before and (cycle is None or not cycle.more_body)
        self._head_bytes = self._head_bytes + len(data) if between else 0
        if self._head_bytes > self._connections.headers_bytes_max:
            self._transport.close()

    def _hand_over(self) -> None:
        reader = asyncio.StreamReader()
        taken = partial(self._connections.other, self._peer)
        protocol = asyncio.StreamReaderProtocol(reader, taken)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        self._connections.decided(self)
        if self._seen:
            protocol.data_received(self._seen)

    def close(self) -> None:
        """End it, whatever it was about to say."""
        self._transport.close()

    def eof_received(self) -> None:
        """See asyncio.Protocol."""
        if self._inner is not None:
            self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._connections.decided(self)
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        if self._inner is not None:
            self._inner.resume_writing()

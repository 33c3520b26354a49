"""Who answers a connection: uvicorn what speaks plain HTTP/1.1, Hypercorn HTTP/2 and upgrades."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from enum import Enum
from typing import Any, cast

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from starlette.types import ASGIApp
from uvicorn import Config as PlainConfig
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

HEAD_BYTES_MAX = 64 << 10
"""Of a request's line and headers."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD_END = b"\r\n\r\n"
_LOG = logging.getLogger("millstream.server.connections")
Take = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


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


class Connections:
    """All connections of a server, and the two servers that answer them."""

    def __init__(self, app: ASGIApp, config: Config, idle_s: int) -> None:
        self._app = ASGIWrapper(cast(Any, app))
        self._config = config
        self._context = WorkerContext(None)
        self._tasks: set[asyncio.Task[None]] = set()
        self._plain = PlainConfig(
            cast(Any, app),
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=idle_s,
        )
        self._plain.load()
        self._state = ServerState()

    def opened(self) -> Connection:
        """The protocol of a new connection."""
        return Connection(self._http1, self._taken)

    def _http1(self) -> HttpToolsProtocol:
        protocol = HttpToolsProtocol(self._plain, self._state, {})
        protocol.logger, protocol.access_log = _LOG, False
        return protocol

    async def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        loop = asyncio.get_running_loop()
        await TCPServer(self._app, loop, self._config, self._context, {}, reader, writer)

    async def tell_time(self) -> None:
        """Keep the `date` of answers true, without end."""
        while True:
            self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
            await asyncio.sleep(1)

    async def end(self, patience_s: float) -> None:
        """Let answers that are under way end, but for those whose clients do not take them."""
        await self._context.terminated.set()
        for connection in list(self._state.connections):
            connection.shutdown()
        left = [*self._tasks, *self._state.tasks]
        if left:
            await asyncio.wait(left, timeout=patience_s)


class Connection(asyncio.Protocol):
    """One connection: looks at its first bytes, and passes all on to whom they are for."""

    def __init__(self, http1: Callable[[], HttpToolsProtocol], other: Take) -> None:
        self._http1 = http1
        self._other = other
        self._seen = b""
        self._inner: HttpToolsProtocol | None = None
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        secure = transport.get_extra_info("ssl_object")
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
                self._inner = self._http1()
                self._inner.connection_made(self._transport)
                self._pass(self._inner, self._seen)
                self._seen = b""
            case Speaks.OTHER:
                self._hand_over()
            case None if len(self._seen) > HEAD_BYTES_MAX:
                self._transport.close()

    def _pass(self, inner: HttpToolsProtocol, data: bytes) -> None:
        before = inner.cycle
        inner.data_received(data)
        cycle = inner.cycle
        between = cycle is before and (cycle is None or not cycle.more_body)
        self._head_bytes = self._head_bytes + len(data) if between else 0
        if self._head_bytes > HEAD_BYTES_MAX:
            self._transport.close()

    def _hand_over(self) -> None:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader, self._other)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if self._seen:
            protocol.data_received(self._seen)

    def eof_received(self) -> None:
        """See asyncio.Protocol."""
        if self._inner is not None:
            self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
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

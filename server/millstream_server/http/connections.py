"""Handles connections: plain HTTP/1.1 by uvicorn, HTTP/2 and upgrades by Hypercorn."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from email.utils import formatdate
from functools import partial
from typing import Any, cast

from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.utils import wrap_app
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn import Config as PlainConfig
from uvicorn.server import ServerState

from millstream_server.http.admission import Admission
from millstream_server.http.connection import Connection
from millstream_server.http.headers import common_headers
from millstream_server.http.http1 import PlainHttp1
from millstream_server.http.protocols import HttpConnection
from millstream_server.http.transport import Transport

PEER = "millstream.peer"
"""The key in a scope of the client's certificate, or None."""
AUTHENTICATED = "millstream.authenticated"
"""The key in a scope of the function to call after a request of the connection was
authenticated."""
CHECKED_AT_ONCE = 20
"""Connections per round of the event loop: each may have to be closed."""
WEBSOCKET_BYTES_MAX = 64 << 10
"""The size of a message from a client; none is expected."""
_BUSY = "Too many requests at a time on this connection."
_LOG = logging.getLogger("millstream.server.connections")


class ConnectionApp:
    """The application for one connection: with the client's certificate, and with a limit on
    concurrent requests. Requests that the client has reset count until they end; otherwise resets
    would bypass the limit on streams."""

    def __init__(self, app: ASGIApp, connection: Connection, recognise: Callable[[], None]) -> None:
        self._app, self._connection, self._recognise = app, connection, recognise
        self._running: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if len(self._running) >= self._connection.transport_limits.streams_max:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1013})
            else:
                busy = PlainTextResponse(_BUSY, 429, {"retry-after": "1"})
                await busy(scope, receive, send)
            return
        scope[PEER] = self._connection.peer
        scope[AUTHENTICATED] = self._recognise
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._running.add(task)
        try:
            await self._app(scope, receive, send)
        finally:
            self._running.discard(task)

    def give_up(self) -> None:
        """Cancel the requests in progress."""
        for task in self._running:
            task.cancel()


class Connections:
    """All connections of a server, and the two servers that handle them. Hypercorn's own connection
    handling neither limits their number nor passes the client's certificate to the application, and
    it waits for ever for clients that do not read."""

    def __init__(
        self, app: ASGIApp, transport: Transport, admission: Admission | None = None
    ) -> None:
        """`admission`: counts connections of other protocols, too."""
        self._app = app
        self.transport = transport
        self._admission = admission or Admission(transport.limits)
        self._configs = {secure: _config(transport, secure=secure) for secure in (False, True)}
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
            timeout_keep_alive=max(1, int(transport.idle_seconds)),
        )
        self._plain.load()
        self._states = {secure: ServerState() for secure in (False, True)}
        self._date()

    def opened(self, tls: Callable[[], ssl.SSLContext] | None) -> Connection:
        """The protocol of a new connection; `tls` returns the TLS context, if any."""
        return Connection(self, tls)

    def admit(self, connection: Connection, address: str) -> bool:
        """Count a new connection; returns False at the limit."""
        return self._admission.admit(connection, address)

    def closed(self, connection: Connection) -> None:
        """Note that a connection is closed."""
        self._admission.remove(connection)

    def plain(self, connection: Connection) -> PlainHttp1:
        """The HTTP/1.1 protocol of a connection."""
        state = self._states[connection.secure]
        app = self._for(connection)
        return PlainHttp1(self._plain, state, app, self.transport.headers_bytes_max, _LOG)

    async def other(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Handle all other protocols, to the end of the connection."""
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        loop = asyncio.get_running_loop()
        app = self._for(connection)
        config = self._configs[connection.secure]
        wrapped = wrap_app(cast(Any, app), 0, "asgi")
        answering = HttpConnection(wrapped, loop, config, self._context, {}, reader, writer)
        answering.give_up, answering.preface = app.give_up, connection.preface
        answering.shared = self._admission.frames(connection.address)
        connection.answering = answering
        try:
            await answering
        except* KeyError:
            # Data on a stream with a complete response makes Hypercorn raise an error.
            _LOG.debug("A connection ended that sent more than was read", exc_info=True)
        except* asyncio.CancelledError:
            _LOG.debug("A connection was cut off as the server stops")
        finally:
            if answering.flooded:
                self._admission.flooded(connection)
            self.closed(connection)
            connection.answering = None
            answering.release()

    def _for(self, connection: Connection) -> ConnectionApp:
        recognise = partial(self._admission.authenticate, connection)
        return ConnectionApp(self._app, connection, recognise)

    async def watch(self) -> None:
        """Close connections whose deadlines pass, and update the `date` header of responses, for
        ever."""
        while True:
            self._date()
            await self._check_all()
            await asyncio.sleep(self.transport.check_seconds)

    async def _check_all(self) -> None:
        # In a separate function, so that no variable references the last connection until the next
        # round.
        loop = asyncio.get_running_loop()
        for number, connection in enumerate(self._connections()):
            connection.check(loop.time())
            if number % CHECKED_AT_ONCE == CHECKED_AT_ONCE - 1:
                await asyncio.sleep(0)

    def _connections(self) -> list[Connection]:
        open_ = self._admission.connections()
        return [connection for connection in open_ if isinstance(connection, Connection)]

    def _date(self) -> None:
        date = (b"date", formatdate(usegmt=True).encode())
        for secure, state in self._states.items():
            state.default_headers = [date, *common_headers(secure=secure)]

    async def end(self, patience_s: float) -> None:
        """Let responses finish for a short time, then cancel the others."""
        await self._context.terminated.set()
        for connection in self._connections():
            if not connection.decided:
                connection.close()
        states = self._states.values()
        for plain in [plain for state in states for plain in state.connections]:
            plain.shutdown()
        for _ in range(2):
            left = [*self._tasks, *(task for state in states for task in state.tasks)]
            if left:
                await asyncio.wait(left, timeout=patience_s)
            for task in left:
                task.cancel()


class _Config(Config):
    """Hypercorn's settings, with our headers in every response."""

    common: list[tuple[bytes, bytes]]

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        """See Hypercorn."""
        return super().response_headers(protocol) + self.common


def _config(transport: Transport, *, secure: bool) -> Config:
    config = _Config()
    config.common = common_headers(secure=secure)
    config.keep_alive_timeout = transport.idle_seconds
    config.h11_max_incomplete_size = transport.headers_bytes_max
    config.h2_max_header_list_size = transport.headers_bytes_max
    config.h2_max_concurrent_streams = transport.streams_max
    config.websocket_max_message_size = WEBSOCKET_BYTES_MAX
    config.include_server_header = False
    config.errorlog = _LOG
    config.accesslog = None
    return config

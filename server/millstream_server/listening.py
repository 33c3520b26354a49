"""Sockets and protocols: HTTP/1.1, HTTP/2 (prior knowledge, upgrade, ALPN) and websockets."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.utils import wrap_app
from starlette.types import ASGIApp, Receive, Scope, Send

from millstream.model.errors import StatementError, UnavailableError
from millstream_server import protocols
from millstream_server.addresses import Address

BACKLOG = 512
GRACE_SECONDS = 1
PATIENCE_SECONDS = 600.0
HANDSHAKE_SECONDS = 10
_LOG = logging.getLogger("millstream.server.connections")
PEER = "millstream.peer"
"""Where a scope has the certificate that its client has shown, None for none."""


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files of a server's certificate. `authorities` signed those of clients, which must show
    one where it is `required`, and else may."""

    certificate: str
    key: str
    key_password: str = field(default="", repr=False)
    authorities: str = ""
    required: bool = True

    def context(self) -> ssl.SSLContext:
        """TLS 1.2 and later, with HTTP/2 where clients have it. StatementError (E-CONFIG) for
        files that are none."""
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.options |= ssl.OP_NO_COMPRESSION
        made.set_alpn_protocols(["h2", "http/1.1"])
        try:
            # Without a function OpenSSL would ask on the terminal.
            made.load_cert_chain(self.certificate, self.key, lambda: self.key_password)
            if self.authorities:
                made.load_verify_locations(self.authorities)
                made.verify_mode = ssl.CERT_REQUIRED if self.required else ssl.CERT_OPTIONAL
        except OSError as error:
            raise StatementError(
                f"The certificate {self.certificate}, its key or the authorities cannot be used.",
                detail=getattr(error, "reason", None) or error.strerror or "",
                code="E-CONFIG",
            ) from error
        return made


@dataclass(frozen=True, slots=True)
class Transport:
    """Bounds on connections."""

    connections_max: int = 1_000
    headers_bytes_max: int = 16 << 10
    idle_seconds: float = 86_400


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket; `secure` ones speak TLS."""

    bound: socket.socket
    secure: bool

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as bound."""
        host, port = self.bound.getsockname()[:2]
        return str(host), int(port)

    @property
    def url(self) -> str:
        """Where it answers."""
        host, port = self.address
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self.secure else 'http'}://{shown}:{port}"


def bind(address: Address, *, patience_s: float = PATIENCE_SECONDS) -> Listener:
    """Bind a socket. A client that takes nothing of what it is sent for `patience_s`, or is not
    there any more, is cut off. UnavailableError where the address cannot be had."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _limit_silence(bound, patience_s)
    try:
        bound.bind((address.host, address.port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise UnavailableError(
            f"Cannot listen on {address.host}:{address.port}: {error.strerror or error}"
        ) from error
    bound.setblocking(False)
    return Listener(bound, address.tls)


def _limit_silence(bound: socket.socket, seconds: float) -> None:
    """Let the system end connections nobody reads from: their own buffers would hide it from us.
    What is set on a listening socket holds for those it accepts."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", seconds), ("TCP_USER_TIMEOUT", seconds * 1000)):
        if hasattr(socket, name):
            bound.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), max(1, int(value)))


async def serve(
    app: ASGIApp,
    listeners: Sequence[Listener],
    stop: Callable[[], Awaitable[object]],
    tls: ssl.SSLContext | None = None,
    transport: Transport | None = None,
) -> None:
    """Serve until `stop` returns. The listeners are closed then; clients that do not take the rest
    of their answers within some seconds are left behind."""
    protocols.install()
    connections = _Connections(app, transport or Transport())
    servers = [
        await asyncio.start_server(
            connections.serve,
            sock=each.bound,
            ssl=tls if each.secure else None,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if each.secure else None,
        )
        for each in listeners
    ]
    try:
        await stop()
    finally:
        for server in servers:
            server.close()
        await connections.close()


class _Connections:
    """All that are open. Hypercorn speaks the protocols; its own `serve` would neither bound their
    number nor tell the application of the client's certificate, and waits without end for clients
    that do not read."""

    def __init__(self, app: ASGIApp, transport: Transport) -> None:
        self._app = app
        self._most = transport.connections_max
        self._config = _config(transport)
        self._context = WorkerContext(None)
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= self._most:
            writer.close()
            return
        self._open.add(task)
        try:
            channel = writer.get_extra_info("ssl_object")
            peer = None if channel is None else channel.getpeercert()
            app = wrap_app(_Shown(self._app, peer), 0, "asgi")  # type: ignore[arg-type]
            loop = asyncio.get_running_loop()
            await TCPServer(app, loop, self._config, self._context, {}, reader, writer)
        except* KeyError:
            # What comes on a stream that was answered already makes Hypercorn fall over.
            _LOG.debug("A connection ended that sent more than was read", exc_info=True)
        finally:
            self._open.discard(task)

    async def close(self) -> None:
        """Let answers end that end soon, then cut the others off."""
        await self._context.terminated.set()
        if self._open:
            await asyncio.wait(self._open, timeout=GRACE_SECONDS)
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=GRACE_SECONDS)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The application, told of the certificate that a connection's client has shown."""

    app: ASGIApp
    peer: object

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[PEER] = self.peer
        await self.app(scope, receive, send)


def _config(transport: Transport) -> Config:
    config = Config()
    config.keep_alive_timeout = transport.idle_seconds
    config.h11_max_incomplete_size = transport.headers_bytes_max
    config.h2_max_header_list_size = transport.headers_bytes_max
    config.include_server_header = False
    config.errorlog = _LOG
    config.accesslog = None
    return config

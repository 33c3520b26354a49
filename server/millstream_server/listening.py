"""Sockets, what is set on them, and how long they are served."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from hypercorn.config import Config
from starlette.types import ASGIApp

from millstream.model.errors import StatementError, UnavailableError
from millstream_server.connections import Connections

BACKLOG = 512
GRACE_SECONDS = 1.0
PATIENCE_SECONDS = 600.0
IDLE_SECONDS = 86_400
UNSENT_BYTES_MAX = 64 << 10
_PORTS = {"http": 8088, "https": 8088}


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files of a server's certificate. `authorities` signed those of clients, which must show
    one then."""

    certificate: str
    key: str
    key_password: str = field(default="", repr=False)
    authorities: str = ""


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


def bind(url: str, *, patience_s: float = PATIENCE_SECONDS) -> Listener:
    """Bind a socket for `http://host:port`; port 0 is any that is free. A client that takes
    nothing of what it is sent for `patience_s`, or is not there any more, is cut off.

    StatementError for another form, UnavailableError where the address cannot be had.
    """
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError as error:
        raise StatementError(f"'{url}' is no listener: {error}") from error
    if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/"):
        raise StatementError(f"'{url}' is no listener", hint="Write it like http://127.0.0.1:8088.")
    family = socket.AF_INET6 if ":" in parts.hostname else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _limit_silence(bound, patience_s)
    _limit_unsent(bound)
    try:
        bound.bind((parts.hostname, _PORTS[parts.scheme] if port is None else port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise UnavailableError(f"Cannot listen on {url}: {error.strerror or error}") from error
    bound.setblocking(False)
    return Listener(bound, parts.scheme == "https")


def _limit_silence(bound: socket.socket, seconds: float) -> None:
    """Let the system end connections nobody reads from: their own buffers would hide it from us.
    What is set on a listening socket holds for those it accepts."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", seconds), ("TCP_USER_TIMEOUT", seconds * 1000)):
        if hasattr(socket, name):
            bound.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), max(1, int(value)))


def _limit_unsent(bound: socket.socket) -> None:
    """Let the system take no more than this of what a client does not take: megabytes of answers
    would be made for nothing. What is on its way is not limited, so fast clients are as fast."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)


async def serve(
    app: ASGIApp,
    listeners: Sequence[Listener],
    stop: Callable[[], Awaitable[None]],
    tls: Tls | None = None,
) -> None:
    """Serve until `stop` returns. The listeners are closed then; clients that do not take the rest
    of their answers within some seconds are left behind."""
    secure = any(listener.secure for listener in listeners)
    if secure and tls is None:
        raise StatementError("An https listener needs a certificate and its key")
    config = _config(tls if secure else None)
    connections = Connections(app, config, IDLE_SECONDS)
    loop = asyncio.get_running_loop()
    context = config.create_ssl_context() if secure else None
    servers = [
        await loop.create_server(
            connections.opened,
            sock=listener.bound,
            backlog=BACKLOG,
            ssl=context if listener.secure else None,
        )
        for listener in listeners
    ]
    telling = asyncio.ensure_future(connections.tell_time())
    try:
        await stop()
    finally:
        telling.cancel()
        for server in servers:
            server.close()
        await connections.end(GRACE_SECONDS)


def _config(tls: Tls | None) -> Config:
    config = Config()
    if tls is not None:
        config.certfile, config.keyfile = tls.certificate, tls.key
        config.keyfile_password = tls.key_password or None
        config.ca_certs = tls.authorities or None
    config.keep_alive_timeout = IDLE_SECONDS
    config.include_server_header = False
    config.errorlog = logging.getLogger("millstream.server.connections")
    config.accesslog = None
    return config

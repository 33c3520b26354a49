"""Sockets and protocols: HTTP/1.1, HTTP/2 (prior knowledge, upgrade, ALPN) and websockets."""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from hypercorn.asyncio import serve as hypercorn_serve
from hypercorn.config import Config
from starlette.types import ASGIApp

from millstream.model.errors import StatementError, UnavailableError

BACKLOG = 512
GRACE_SECONDS = 3
IDLE_SECONDS = 86_400
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


def bind(url: str) -> Listener:
    """Bind a socket for `http://host:port`; port 0 is any that is free.

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
    try:
        bound.bind((parts.hostname, _PORTS[parts.scheme] if port is None else port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise UnavailableError(f"Cannot listen on {url}: {error.strerror or error}") from error
    bound.setblocking(False)
    return Listener(bound, parts.scheme == "https")


async def serve(
    app: ASGIApp,
    listeners: Sequence[Listener],
    stop: Callable[[], Awaitable[None]],
    tls: Tls | None = None,
) -> None:
    """Serve until `stop` returns. The listeners are closed then."""
    config = Config()
    secure = [f"fd://{each.bound.detach()}" for each in listeners if each.secure]
    plain = [f"fd://{each.bound.detach()}" for each in listeners if not each.secure]
    config.bind, config.insecure_bind = (secure, plain) if secure else (plain, [])
    if secure:
        if tls is None:
            raise StatementError("An https listener needs a certificate and its key")
        config.certfile, config.keyfile = tls.certificate, tls.key
        config.keyfile_password = tls.key_password or None
        config.ca_certs = tls.authorities or None
    config.graceful_timeout = GRACE_SECONDS
    config.keep_alive_timeout = IDLE_SECONDS
    config.include_server_header = False
    config.errorlog = logging.getLogger("millstream.server.connections")
    config.accesslog = None
    await hypercorn_serve(app, config, shutdown_trigger=stop)  # type: ignore[arg-type]

"""Sockets, what is set on them, and how long they are served."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from starlette.types import ASGIApp

from millstream.model.errors import StatementError, UnavailableError
from millstream_server.bootstrap.addresses import Address
from millstream_server.http.connections import Connections, Transport

BACKLOG = 512
GRACE_SECONDS = 1.0
PATIENCE_SECONDS = 600.0
ACCEPTED_AT_ONCE = 16
"""New connections, before others have their turn."""
UNSENT_BYTES_MAX = 64 << 10


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
    # asyncio sends at once, without waiting for acknowledgements, only where it sees TCP named.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _limit_silence(bound, patience_s)
    _limit_unsent(bound)
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


def _limit_unsent(bound: socket.socket) -> None:
    """Let the system take no more than this of what a client does not take: megabytes of answers
    would be made for nothing. What is on its way is not limited, so fast clients are as fast."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)


async def serve(
    app: ASGIApp,
    listeners: Sequence[Listener],
    stop: Callable[[], Awaitable[object]],
    tls: Callable[[], ssl.SSLContext] | None = None,
    transport: Transport | None = None,
) -> None:
    """Serve until `stop` returns; each connection is given what `tls` returns then. The listeners
    are closed in the end; clients that do not take the rest of their answers within some seconds
    are left behind."""
    connections = Connections(app, transport or Transport())
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(
            partial(connections.opened, tls if listener.secure else None),
            sock=listener.bound,
            backlog=ACCEPTED_AT_ONCE,
        )
        for listener in listeners
    ]
    for listener in listeners:
        # asyncio accepts as many at once as may wait; these are two things.
        listener.bound.listen(BACKLOG)
    watching = asyncio.ensure_future(connections.watch())
    try:
        await stop()
    finally:
        watching.cancel()
        for server in servers:
            server.close()
        await connections.end(GRACE_SECONDS)

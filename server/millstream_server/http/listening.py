"""Sockets, their options and their lifetime."""

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
from millstream_server.http.admission import Admission
from millstream_server.http.connections import Connections
from millstream_server.http.transport import Transport

BACKLOG = 512
GRACE_SECONDS = 1.0
PATIENCE_SECONDS = 600.0
ACCEPTED_AT_ONCE = 16
"""New connections that are accepted before other events are handled."""
UNSENT_BYTES_MAX = 64 << 10


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files of a server's certificate. `authorities` are the CAs of client certificates, which
    are `required` or optional."""

    certificate: str
    key: str
    key_password: str = field(default="", repr=False)
    authorities: str = ""
    required: bool = True

    def context(self) -> ssl.SSLContext:
        """TLS 1.2 and later, with HTTP/2 if clients support it. Raises StatementError (E-CONFIG)
        for invalid files."""
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.options |= ssl.OP_NO_COMPRESSION
        made.set_alpn_protocols(["h2", "http/1.1"])
        try:
            # Without a function OpenSSL would prompt on the terminal.
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
    """A bound socket; `secure` ones use TLS."""

    bound: socket.socket
    secure: bool

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as bound."""
        host, port = self.bound.getsockname()[:2]
        return str(host), int(port)

    @property
    def url(self) -> str:
        """Its URL, for HTTP."""
        return self.url_of("https" if self.secure else "http")

    def url_of(self, scheme: str) -> str:
        """Its URL in another scheme."""
        host, port = self.address
        shown = f"[{host}]" if ":" in host else host
        return f"{scheme}://{shown}:{port}"


@dataclass(frozen=True, slots=True)
class Other:
    """A listener of a protocol other than HTTP. `opened` makes the protocol of a new connection,
    `end` ends all connections within some seconds."""

    listener: Listener
    opened: Callable[[], asyncio.BaseProtocol]
    end: Callable[[float], Awaitable[None]]


def bind(address: Address, *, patience_s: float = PATIENCE_SECONDS) -> Listener:
    """Bind a socket. A client that reads nothing for `patience_s`, or is unreachable, is
    disconnected. Raises UnavailableError if the address cannot be bound."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio sends at once, without waiting for acknowledgements, only if the protocol is given as
    # TCP.
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
    """Let the operating system close connections whose client does not read: its buffers would hide
    that from us. Options of a listening socket apply to accepted ones."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", seconds), ("TCP_USER_TIMEOUT", seconds * 1000)):
        if hasattr(socket, name):
            bound.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), max(1, int(value)))


def _limit_unsent(bound: socket.socket) -> None:
    """Limit the operating system's buffer of unsent data: otherwise megabytes of responses would be
    produced for nothing. Data in flight is not limited, so fast clients stay fast."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)


async def serve(
    app: ASGIApp,
    listeners: Sequence[Listener],
    stop: Callable[[], Awaitable[object]],
    tls: Callable[[], ssl.SSLContext] | None = None,
    transport: Transport | None = None,
    others: Sequence[Other] = (),
    admission: Admission | None = None,
) -> None:
    """Serve until `stop` returns; each connection uses the current result of `tls`. The listeners
    are closed at the end; clients that do not read the rest of their responses within some seconds
    are abandoned. `others`: listeners of other protocols; `admission` counts the connections of
    all."""
    connections = Connections(app, transport or Transport(), admission)
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(
            partial(connections.opened, tls if listener.secure else None),
            sock=listener.bound,
            backlog=ACCEPTED_AT_ONCE,
        )
        for listener in listeners
    ]
    servers += [
        await loop.create_server(other.opened, sock=other.listener.bound, backlog=ACCEPTED_AT_ONCE)
        for other in others
    ]
    for listener in (*listeners, *(other.listener for other in others)):
        # asyncio uses one number for the backlog and for connections accepted at once; they are set
        # separately here.
        listener.bound.listen(BACKLOG)
    watching = asyncio.ensure_future(connections.watch())
    try:
        await stop()
    finally:
        watching.cancel()
        for server in servers:
            server.close()
        for other in others:
            await other.end(GRACE_SECONDS)
        await connections.end(GRACE_SECONDS)

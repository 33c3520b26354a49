"""One connection, from its first byte: protocol detection and deadlines."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Protocol, cast

from millstream_server.http.addresses import network_of
from millstream_server.http.http1 import PlainHttp1
from millstream_server.http.progress import Progress
from millstream_server.http.protocols import HttpConnection
from millstream_server.http.transport import Transport
from millstream_server.http.written import Written

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD_END = b"\r\n\r\n"


class Speaks(Enum):
    """The protocol that the first bytes of a connection indicate."""

    PLAIN = "HTTP/1.1"
    OTHER = "HTTP/2, or a request to change to another protocol"


def spoken(seen: bytes) -> Speaks | None:
    """The protocol of a connection that begins with `seen`; None while it is ambiguous."""
    if _PREFACE.startswith(seen[: len(_PREFACE)]):
        return Speaks.OTHER if len(seen) >= len(_PREFACE) else None
    head, end, _ = seen.partition(_HEAD_END)
    if not end:
        return None
    return Speaks.OTHER if b"\r\nupgrade:" in head.lower() else Speaks.PLAIN


class ConnectionOwner(Protocol):
    """Counts the connections of a server, and has the protocols that handle them."""

    transport: Transport

    def admit(self, connection: Connection, address: str) -> bool:
        """Count a new connection; returns False at the limit."""

    def closed(self, connection: Connection) -> None:
        """Note that a connection is closed."""

    def plain(self, connection: Connection) -> PlainHttp1:
        """The HTTP/1.1 protocol of a connection."""

    async def other(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Handle all other protocols, to the end of the connection."""


class Connection(asyncio.Protocol):
    """Examines the first bytes, and forwards everything to the matching protocol."""

    def __init__(
        self, connections: ConnectionOwner, tls: Callable[[], ssl.SSLContext] | None
    ) -> None:
        self._connections = connections
        self._tls = tls
        self._seen = b""
        self._plain: PlainHttp1 | None = None
        self._incomplete: tuple[int, float] | None = None
        """The number of the incomplete request, and since when it is incomplete."""
        self._progress = Progress()
        self._shaking_hands: asyncio.Task[None] | None = None
        self.authenticated = False
        self.address = ""
        """The client's address key."""
        self.answering: HttpConnection | None = None
        """The handler of connections that are not plain HTTP/1.1."""
        self.preface = False
        """Whether it begins with the preface of HTTP/2."""
        self.decided = False
        """Whether the protocol of the connection is known."""
        self.secure = tls is not None
        self.peer: object = None
        """The client's certificate."""

    @property
    def transport_limits(self) -> Transport:
        """The limits on connections."""
        return self._connections.transport

    @property
    def idle(self) -> bool:
        """See `Admitted`."""
        answers = self._plain or self.answering
        return answers is None or not answers.working

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        self._incomplete = (0, loop.time())
        peername = transport.get_extra_info("peername") or ("",)
        self.address = network_of(str(peername[0]))
        if not self._connections.admit(self, self.address):
            self._transport.abort()
        elif self._tls is not None:
            # TLS is not on the listening socket, because a connection counts before its handshake.
            self._transport.pause_reading()
            self._shaking_hands = loop.create_task(self._secured(self._transport, self._tls()))

    async def _secured(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        seconds = self.transport_limits.headers_seconds
        try:
            secured = await loop.start_tls(
                transport,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
        except (OSError, asyncio.CancelledError):
            secured = None
        if secured is None:
            transport.abort()
            self._connections.closed(self)
            return
        self._transport = secured
        self._shaking_hands = None
        negotiated = secured.get_extra_info("ssl_object")
        self.peer = negotiated.getpeercert()
        if negotiated.selected_alpn_protocol() == "h2":
            self._hand_over()
        else:
            self.data_received(b"")

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._plain is not None:
            self._plain.data_received(data)
            return
        self._seen += data
        if self._shaking_hands is not None:
            return
        match spoken(self._seen):
            case Speaks.PLAIN:
                self.decided = True
                self._plain = self._connections.plain(self)
                self._plain.connection_made(Written(self._transport, asyncio.get_running_loop()))
                seen, self._seen = self._seen, b""
                self._plain.data_received(seen)
            case Speaks.OTHER:
                self._hand_over()
            case None if len(self._seen) > self.transport_limits.headers_bytes_max:
                self._transport.close()

    def _hand_over(self) -> None:
        self.decided = True
        self.preface = self._seen.startswith(_PREFACE)
        reader = asyncio.StreamReader()
        taken = partial(self._connections.other, self)
        protocol = asyncio.StreamReaderProtocol(reader, taken)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if self._seen:
            protocol.data_received(self._seen)
            self._seen = b""

    def check(self, now: float) -> None:
        """Close the connection if a deadline has passed."""
        limits = self.transport_limits
        if self._shaking_hands is not None:
            return
        waiting = self._transport.get_write_buffer_size()
        if self._progress.stalled_for(waiting, now) >= limits.stall_seconds:
            self._transport.abort()
        else:
            self._check_head(now, limits.headers_seconds)
        if self.answering is not None:
            self.answering.check(now, limits.stall_seconds)

    def _check_head(self, now: float, seconds: float) -> None:
        answers = self._plain or self.answering
        if answers is not None and not answers.incomplete:
            self._incomplete = None
            return
        number = 0 if answers is None else answers.requests
        if self._incomplete is None or self._incomplete[0] != number:
            self._incomplete = (number, now)
        elif now - self._incomplete[1] >= seconds:
            self.close()

    def close(self) -> None:
        """Close it at once, without sending pending data."""
        if self._shaking_hands is not None:
            self._shaking_hands.cancel()
        elif self._transport.get_write_buffer_size():
            self._transport.close()
        else:
            # Over TLS, a graceful close would wait for the client.
            self._transport.abort()

    def eof_received(self) -> None:
        """See asyncio.Protocol."""
        if self._plain is not None:
            self._plain.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._connections.closed(self)
        if self._plain is not None:
            self._plain.connection_lost(exc)
            self._plain = None

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        if self._plain is not None:
            self._plain.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        if self._plain is not None:
            self._plain.resume_writing()

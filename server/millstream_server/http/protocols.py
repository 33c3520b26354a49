"""HTTP/1.1 and HTTP/2 by Hypercorn, with adaptations for some clients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

import h11
from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.events import Closed, RawData, Updated
from hypercorn.events import Event as WireEvent
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.h11 import H2CProtocolRequiredError, H2ProtocolAssumedError, H11Protocol
from hypercorn.typing import ConnectionState, H11SendableEvent

from millstream_server.http.frames import Shared, alone
from millstream_server.http.given import Given
from millstream_server.http.http2 import FloodError, LiveHttp2
from millstream_server.http.messages import given_up, leave

LIVE = {"x-accel-buffering": "no"}
"""The header of a response whose lines are streamed; proxies support it too."""


class WholeHttp1(H11Protocol):
    """Adds reason phrases, which are optional but which the client `hyper` requires, and the
    absolute form of targets, which servers must accept and `hyper` sends."""

    async def _send_h11_event(self, event: H11SendableEvent) -> None:
        if isinstance(event, h11.Response | h11.InformationalResponse):
            event = type(event)(
                status_code=event.status_code,
                headers=event.headers,
                reason=_phrase(event.status_code),
            )
        await super()._send_h11_event(event)

    async def handle(self, event: WireEvent) -> None:
        """Process received bytes."""
        await super().handle(event)
        over = given_up(self.stream)
        if over is not None:
            await leave(over)
            await self.send(Closed())

    @property
    def working(self) -> bool:
        """Whether a complete request is in progress."""
        return self.stream is not None and self.connection.their_state is not h11.SEND_BODY

    @property
    def requests(self) -> int:
        """The number of requests so far."""
        return self.keep_alive_requests

    @property
    def incomplete(self) -> bool:
        """Whether a head is incomplete."""
        return self.stream is None and bool(self.connection.trailing_data[0])

    async def _create_stream(self, request: h11.Request) -> None:
        await super()._create_stream(
            h11.Request(
                method=request.method,
                target=_origin_form(request.target),
                headers=request.headers,
                http_version=request.http_version,
            )
        )


class NegotiatedProtocol(ProtocolWrapper):
    """The protocol of one connection, one of the classes here. Hypercorn's own selection would
    create its own classes."""

    def __init__(self, given: Given, shared: Shared, *, http2: bool) -> None:
        """`shared`: see `FrameMeter`."""
        self._given, self._shared = given, shared
        self.protocol = self._http2() if http2 else WholeHttp1(*given)

    @property
    def now(self) -> WholeHttp1 | LiveHttp2:
        """The current protocol."""
        protocol = self.protocol
        assert isinstance(protocol, WholeHttp1 | LiveHttp2)
        return protocol

    async def handle(self, event: WireEvent) -> None:
        """Process received bytes."""
        try:
            await self.protocol.handle(event)
        except H2ProtocolAssumedError as error:
            await self._change(error.data)
        except H2CProtocolRequiredError as error:
            await self._change(error.data, error.headers, error.settings)

    async def _change(
        self,
        data: bytes,
        headers: list[tuple[bytes, bytes]] | None = None,
        settings: bytes | None = None,
    ) -> None:
        """Continue with HTTP/2; `headers` and `settings` are those of an upgrade request."""
        self.protocol = self._http2()
        await self.protocol.initiate(headers, settings)
        if data:
            await self.protocol.handle(RawData(data=data))

    def _http2(self) -> LiveHttp2:
        return LiveHttp2(*self._given, shared=self._shared)


class HttpConnection(TCPServer):
    """One connection that Hypercorn handles, with these protocols."""

    spoken: NegotiatedProtocol | None = None
    """None before it begins."""
    shared: Shared = staticmethod(alone)
    """Counts its frames together with other connections."""
    preface = False
    """Whether it begins with the preface of HTTP/2."""
    _ended = False
    flooded = False
    """Whether it was closed for flooding."""
    give_up: Callable[[], None] = staticmethod(lambda: None)
    """Cancels its requests."""

    @property
    def working(self) -> bool:
        """Whether a complete request is in progress."""
        return self.spoken is not None and self.spoken.now.working

    @property
    def incomplete(self) -> bool:
        """Whether a head is incomplete, or the first request is missing."""
        return self.spoken is None or self.spoken.now.incomplete

    @property
    def requests(self) -> int:
        """The number of requests so far."""
        return 0 if self.spoken is None else self.spoken.now.requests

    def check(self, now: float, stall_seconds: float) -> None:
        """Cancel responses that the client has not read for this long."""
        if self.spoken is not None and isinstance(self.spoken.now, LiveHttp2):
            self.spoken.now.check(now, stall_seconds)

    async def run(self) -> None:
        """Handle the connection to its end."""
        told = self.writer.get_extra_info
        secure = told("ssl_object")
        try:
            async with TaskGroup(self.loop) as group:
                self._task_group = group
                given = (
                    self.app,
                    self.config,
                    self.context,
                    group,
                    ConnectionState(self.state),
                    secure is not None,
                    told("peername")[:2],
                    told("sockname")[:2],
                    self.protocol_send,
                )
                negotiated = secure is not None and secure.selected_alpn_protocol() == "h2"
                http2 = negotiated or self.preface
                self.protocol = self.spoken = NegotiatedProtocol(given, self.shared, http2=http2)
                await self.protocol.initiate()
                await self.idle_task.restart(group, self._idle_timeout)
                await self._read_until_flooded()
        except OSError:
            pass  # Note that the client has disconnected.
        finally:
            await self._close()

    async def _read_until_flooded(self) -> None:
        try:
            await self._read_data()
        except FloodError:
            self.flooded = True
            # Queued requests would use slots of others.
            self.give_up()
            self.writer.close()
        finally:
            # The task group waits for its timer, which later responses would restart.
            self._ended = True
            await self.idle_task.stop()

    async def protocol_send(self, event: WireEvent) -> None:
        """Send the protocol's pending bytes."""
        if not (self._ended and isinstance(event, Updated)):
            await super().protocol_send(event)

    async def _close(self) -> None:
        # A client that sends while its TLS connection is closed, as those of websockets do, makes
        # OpenSSL raise an error.
        with contextlib.suppress(OSError):
            await super()._close()

    def release(self) -> None:
        """Free the connection's objects after its end. Hypercorn's and h2's objects form reference
        cycles, which garbage collection would find much later."""
        error = self.reader.exception()
        if error is not None:
            # asyncio keeps the error, and its traceback the frame that waited for bytes.
            error.__traceback__ = None
        vars(self.reader).clear()
        spoken, self.spoken = self.spoken, None
        if spoken is not None:
            if isinstance(spoken.now, LiveHttp2):
                vars(spoken.now.connection).clear()
            vars(spoken).clear()
        vars(self).clear()


def _phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b"Unknown"


def _origin_form(target: bytes) -> bytes:
    if target.startswith(b"/"):
        return target
    parts = urlsplit(target)
    if parts.scheme not in (b"http", b"https"):
        return target
    return (parts.path or b"/") + (b"?" + parts.query if parts.query else b"")

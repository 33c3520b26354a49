"""HTTP/1.1 and HTTP/2 as Hypercorn speaks them, and what some clients need beside that."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import urlsplit

import h2.exceptions
import h11
from hypercorn.asyncio.task_group import TaskGroup
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.config import Config
from hypercorn.events import Event as WireEvent
from hypercorn.events import RawData
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.events import Event, Response
from hypercorn.protocol.h2 import H2Protocol, StreamBuffer
from hypercorn.protocol.h11 import H2CProtocolRequiredError, H2ProtocolAssumedError, H11Protocol
from hypercorn.typing import AppWrapper, ConnectionState, H11SendableEvent, WorkerContext

LIVE = {"x-accel-buffering": "no"}
"""The header of an answer whose lines come as they are made; proxies know it too."""
BYTES_AT_ONCE = 1 << 14
_LIVE = (b"x-accel-buffering", b"no")
_Place = tuple[str, int] | None
Given = tuple[
    AppWrapper,
    Config,
    WorkerContext,
    TaskGroup,
    ConnectionState,
    bool,
    _Place,
    _Place,
    Callable[[WireEvent], Awaitable[None]],
]
"""What a protocol of Hypercorn's is made of: among others TLS or not, the client, the server."""


class WholeHttp1(H11Protocol):
    """Adds the words behind a status, which may be left out but without which the client `hyper`
    reads nothing, and the absolute form of targets, which servers must accept and `hyper` sends."""

    async def _send_h11_event(self, event: H11SendableEvent) -> None:
        if isinstance(event, h11.Response | h11.InformationalResponse):
            event = type(event)(
                status_code=event.status_code,
                headers=event.headers,
                reason=_phrase(event.status_code),
            )
        await super()._send_h11_event(event)

    async def _create_stream(self, request: h11.Request) -> None:
        await super()._create_stream(
            h11.Request(
                method=request.method,
                target=_origin_form(request.target),
                headers=request.headers,
                http_version=request.http_version,
            )
        )


class LiveHttp2(H2Protocol):
    """Sends each line of a live answer in a frame of its own: the client `ksqldb-client` takes each
    frame for one row."""

    async def stream_send(self, event: Event) -> None:
        """Send a part of an answer."""
        if isinstance(event, Response) and _LIVE in event.headers:
            self.stream_buffers[event.stream_id] = Lines(self.context.event_class)
        await super().stream_send(event)

    async def _send_data(self, stream_id: int) -> None:
        waiting = self.stream_buffers.get(stream_id)
        if isinstance(waiting, Lines):
            # The last line goes the usual way, and takes those before it along.
            with contextlib.suppress(h2.exceptions.ProtocolError):
                room = self.connection.local_flow_control_window(stream_id)
                for line in waiting.before_last(min(room, BYTES_AT_ONCE)):
                    self.connection.send_data(stream_id, line)
        await super()._send_data(stream_id)


class Lines(StreamBuffer):
    """What waits to be sent of a live answer."""

    async def pop(self, max_length: int) -> bytes:
        """The next line, or as much of it as may be sent."""
        end = self.buffer.find(b"\n", 0, max_length) + 1
        return await super().pop(end or max_length)

    def before_last(self, max_length: int) -> list[bytes]:
        """Take out the lines that may be sent, without the last of them."""
        end = self.buffer.rfind(b"\n", 0, max_length) + 1
        start = self.buffer.rfind(b"\n", 0, max(end - 1, 0)) + 1
        lines = bytes(self.buffer[:start]).splitlines(keepends=True)
        del self.buffer[:start]
        return lines


class Spoken(ProtocolWrapper):
    """What one connection speaks, of these protocols. Hypercorn's own would make its own ones."""

    def __init__(self, given: Given, *, http2: bool) -> None:
        self._given = given
        self.protocol = (LiveHttp2 if http2 else WholeHttp1)(*given)

    async def handle(self, event: WireEvent) -> None:
        """Take what the connection brings."""
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
        """Go on with HTTP/2; `headers` and `settings` are those of a request to change to it."""
        self.protocol = LiveHttp2(*self._given)
        await self.protocol.initiate(headers, settings)
        if data:
            await self.protocol.handle(RawData(data=data))


class Answering(TCPServer):
    """One connection that Hypercorn answers, in these protocols."""

    async def run(self) -> None:
        """Answer to its end."""
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
                http2 = secure is not None and secure.selected_alpn_protocol() == "h2"
                self.protocol = Spoken(given, http2=http2)
                await self.protocol.initiate()
                await self.idle_task.restart(group, self._idle_timeout)
                await self._read_data()
        except OSError:
            pass  # The client is gone.
        finally:
            await self._close()


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

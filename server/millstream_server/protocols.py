"""HTTP/1.1 and HTTP/2 as Hypercorn speaks them, and what some clients need beside that."""

from __future__ import annotations

import contextlib
from http import HTTPStatus
from urllib.parse import urlsplit

import h2.exceptions
import h11
import hypercorn.protocol
from hypercorn.protocol.events import Event, Response
from hypercorn.protocol.h2 import H2Protocol, StreamBuffer
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.typing import H11SendableEvent

LIVE = {"x-accel-buffering": "no"}
"""The header of an answer whose lines come as they are made; proxies know it too."""
BYTES_AT_ONCE = 1 << 14
_LIVE = (b"x-accel-buffering", b"no")


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


def install() -> None:
    """Let Hypercorn use them. It has no setting for that."""
    hypercorn.protocol.H11Protocol = WholeHttp1  # type: ignore[attr-defined]
    hypercorn.protocol.H2Protocol = LiveHttp2  # type: ignore[attr-defined]


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

"""HTTP/2 by Hypercorn, with limits, and with an adaptation for one client."""

from __future__ import annotations

import asyncio
import contextlib
import time

import h2.exceptions
from h2.errors import ErrorCodes
from h2.events import DataReceived, PriorityUpdated, RequestReceived, StreamEnded, StreamReset
from h2.events import Event as H2Event
from hypercorn.events import Closed, RawData
from hypercorn.events import Event as WireEvent
from hypercorn.protocol.events import Event, Response
from hypercorn.protocol.h2 import H2Protocol, StreamBuffer

from millstream_server.http.frames import FrameMeter, Kind, Shared
from millstream_server.http.given import Given
from millstream_server.http.messages import given_up, leave
from millstream_server.http.progress import Progress

BYTES_AT_ONCE = 1 << 14
READ_AT_ONCE = 8 << 10
FRAMES_AT_ONCE = 16
"""The bytes of a connection that are handled before other connections run."""
_LIVE = (b"x-accel-buffering", b"no")


class FloodError(Exception):
    """The client has exceeded a limit and was notified: its requests are cancelled."""


class LiveHttp2(H2Protocol):
    """Closes connections with too many frames, and streams whose client does not read. Sends each
    line of a live response in a frame of its own, because the client `ksqldb-client` interprets
    each frame as one row."""

    def __init__(self, *given: *Given, shared: Shared) -> None:
        """`shared`: see `FrameMeter`."""
        super().__init__(*given)
        self._meter = FrameMeter(self.config.h2_max_header_list_size, time.monotonic, shared)
        self._progress: dict[int, Progress] = {}
        self._working: set[int] = set()
        # Hypercorn only announces the limit; larger headers after decompression are refused here.
        self.connection.decoder.max_header_list_size = self.config.h2_max_header_list_size

    @property
    def working(self) -> bool:
        """Whether a request is in progress that is complete, or whose response streams while it
        arrives."""
        return not self._working.isdisjoint(self.streams)

    @property
    def requests(self) -> int:
        """The number of requests so far."""
        return self.keep_alive_requests

    @property
    def incomplete(self) -> bool:
        """Whether the head of a request is incomplete, or the preface or the first request is
        missing."""
        if self._meter.in_headers or not self._meter.greeted:
            return True
        return self.idle and not self.requests

    async def handle(self, event: WireEvent) -> None:
        """Process received bytes."""
        if not isinstance(event, RawData):
            await super().handle(event)
            if self.closed:
                await self._end_waiting()
            return
        for start in range(0, len(event.data), READ_AT_ONCE):
            piece = event.data[start : start + READ_AT_ONCE]
            before = self._meter.frames
            self._meter.feed(piece)
            await self._check_excess()
            # Small frames cost much more than their bytes.
            turns = -(-(self._meter.frames - before) // FRAMES_AT_ONCE) or 1
            step = -(-len(piece) // turns)
            for at in range(0, len(piece), step):
                if start or at:
                    await asyncio.sleep(0)
                await super().handle(RawData(data=piece[at : at + step]))
                await self._check_excess()

    async def _check_excess(self) -> None:
        """Close the connection if the client has exceeded a limit."""
        if not self._meter.excess:
            return
        with contextlib.suppress(h2.exceptions.ProtocolError):
            reason = f"too many {self._meter.excess}".encode()
            self.connection.close_connection(ErrorCodes.ENHANCE_YOUR_CALM, reason)
        await self._flush()
        await self.handle(Closed())
        raise FloodError(self._meter.excess)

    async def _end_waiting(self) -> None:
        """Release responses that wait for their data to be sent, because nothing is sent any
        more."""
        for waiting in tuple(self.stream_buffers.values()):
            await waiting.close()

    async def _handle_events(self, events: list[H2Event]) -> None:
        given_up = {event.stream_id for event in events if isinstance(event, StreamReset)}
        for event in events:
            if isinstance(event, StreamReset) and not event.remote_reset:
                # Frames that make the server reset a stream cost as much as the client's resets.
                self._meter.count(Kind.RESET)
            if isinstance(event, RequestReceived) and event.stream_id in given_up:
                # Its response would have no reader: do not begin it.
                continue
            if isinstance(event, DataReceived) and event.stream_id not in self.streams:
                # The rest of a request that was answered before it was complete, or was cancelled.
                length = event.flow_controlled_length
                self.connection.acknowledge_received_data(length, event.stream_id)
                continue
            if isinstance(event, StreamEnded):
                self._working.add(event.stream_id)
            await super()._handle_events([event])
            if isinstance(event, DataReceived):
                await self._end_websocket(event.stream_id)

    async def _end_websocket(self, stream_id: int) -> None:
        over = given_up(self.streams.get(stream_id))
        if over is not None:
            self._meter.count(Kind.RESET)
            await leave(over)
            await self._give_up(stream_id)

    async def _priority_updated(self, event: PriorityUpdated) -> None:
        """Priorities are deprecated; those of streams that never open would fill the tree."""

    async def _create_stream(self, request: RequestReceived) -> None:
        fields = dict(request.headers)
        if b":path" in fields and fields[b":path"].isascii() and fields[b":method"].isascii():
            await super()._create_stream(request)
            return
        self._meter.count(Kind.RESET)
        with contextlib.suppress(h2.exceptions.ProtocolError):
            self.connection.reset_stream(request.stream_id, ErrorCodes.PROTOCOL_ERROR)

    def check(self, now: float, stall_seconds: float) -> None:
        """Reset the streams whose client has read nothing for this long."""
        for stream_id, waiting in self.stream_buffers.items():
            progress = self._progress.setdefault(stream_id, Progress())
            if progress.stalled_for(len(waiting.buffer), now) >= stall_seconds:
                self.task_group.spawn(self._give_up, stream_id)
        self._working.intersection_update(self.streams)
        for stream_id in self._progress.keys() - self.stream_buffers.keys():
            del self._progress[stream_id]

    async def _give_up(self, stream_id: int) -> None:
        with contextlib.suppress(h2.exceptions.ProtocolError):
            self.connection.reset_stream(stream_id, ErrorCodes.CANCEL)
        await self._flush()
        await self._close_stream(stream_id)
        if stream_id in self.stream_buffers:
            await self.stream_buffers[stream_id].close()

    async def stream_send(self, event: Event) -> None:
        """Send a part of a response."""
        if isinstance(event, Response):
            self._working.add(event.stream_id)
        if isinstance(event, Response) and _LIVE in event.headers:
            self.stream_buffers[event.stream_id] = Lines(self.context.event_class)
        await super().stream_send(event)

    async def _send_data(self, stream_id: int) -> None:
        waiting = self.stream_buffers.get(stream_id)
        before = self.connection.outbound_flow_control_window
        if isinstance(waiting, Lines):
            # The last line is sent the usual way, after those before it.
            with contextlib.suppress(h2.exceptions.ProtocolError):
                room = self.connection.local_flow_control_window(stream_id)
                for line in waiting.before_last(min(room, BYTES_AT_ONCE)):
                    self.connection.send_data(stream_id, line)
        await super()._send_data(stream_id)
        self._meter.sent(max(0, before - self.connection.outbound_flow_control_window))


class Lines(StreamBuffer):
    """The pending lines of a live response."""

    async def pop(self, max_length: int) -> bytes:
        """The next line, or as much of it as flow control allows."""
        end = self.buffer.find(b"\n", 0, max_length) + 1
        return await super().pop(end or max_length)

    def before_last(self, max_length: int) -> list[bytes]:
        """Remove the lines that may be sent, except the last of them."""
        end = self.buffer.rfind(b"\n", 0, max_length) + 1
        start = self.buffer.rfind(b"\n", 0, max(end - 1, 0)) + 1
        lines = bytes(self.buffer[:start]).splitlines(keepends=True)
        del self.buffer[:start]
        return lines

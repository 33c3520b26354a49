"""Handles messages received over websockets."""

from __future__ import annotations

from hypercorn.protocol.events import StreamClosed
from hypercorn.protocol.ws_stream import WSStream


def given_up(stream: object) -> WSStream | None:
    """The stream if it is a websocket that the server has finished: it was refused, or its message
    exceeds the limit. Hypercorn notifies the client, but continues to read and buffer its data."""
    if not isinstance(stream, WSStream):
        return None
    return stream if stream.closed or stream.buffer.length > stream.buffer.max_length else None


async def leave(stream: WSStream) -> None:
    """Notify a websocket's handler that its client has disconnected. Hypercorn does not do so if it
    has refused the client itself while the response began."""
    stream.closed = False
    await stream.handle(StreamClosed(stream.stream_id))

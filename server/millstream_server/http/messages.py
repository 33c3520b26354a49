"""Messages that come over websockets."""

from __future__ import annotations

from hypercorn.protocol.events import StreamClosed
from hypercorn.protocol.ws_stream import WSStream


def given_up(stream: object) -> WSStream | None:
    """The stream if it is a websocket that is over for the server: it was refused, or its message
    has become larger than it may be. Hypercorn tells the client so, and then goes on reading and
    keeping what comes."""
    if not isinstance(stream, WSStream):
        return None
    return stream if stream.closed or stream.buffer.length > stream.buffer.max_length else None


async def leave(stream: WSStream) -> None:
    """Tell what answers a websocket that its client is gone. Hypercorn does not where it has
    refused the client itself while the answer began."""
    stream.closed = False
    await stream.handle(StreamClosed(stream.stream_id))

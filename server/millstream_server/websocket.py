"""GET /ws/query: the rows of a query as frames of a websocket (reference: 7)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator

import pyarrow as pa
from starlette.websockets import WebSocket, WebSocketDisconnect

from millstream.model.errors import MillstreamError
from millstream.model.schema import Schema
from millstream.query.results import Change, Rows
from millstream_server.auth.principal import ANONYMOUS, Principal
from millstream_server.endpoints import started
from millstream_server.entities.shapes import schema_object
from millstream_server.failures import MALFORMED, RefusedError, refusal, unexpected
from millstream_server.http.connections import AUTHENTICATED
from millstream_server.requests import asked, parsed_body
from millstream_server.results import queries
from millstream_server.results.framing import marked_texts
from millstream_server.results.values import text_of
from millstream_server.server import Server

DONE, BAD_REQUEST, FAILED, NOT_READY = 1000, 1003, 1011, 1013
REASON_BYTES_MAX = 123
PATH = "/ws/query"


async def ws_query(socket: WebSocket, server: Server) -> None:
    """The endpoint."""
    await socket.accept()
    try:
        principal = await server.guard.authenticate(socket.scope)
        if principal is not ANONYMOUS and AUTHENTICATED in socket.scope:
            socket.scope[AUTHENTICATED]()
        server.guard.enter(principal, PATH)
    except RefusedError as error:
        await _refuse(socket, error)
        return
    try:
        await _answered(socket, server, principal)
    finally:
        server.guard.leave(principal, PATH)


async def _answered(socket: WebSocket, server: Server, principal: Principal) -> None:
    try:
        server.check_serving()
        request = socket.query_params.get("request")
        if request is None:
            raise RefusedError(MALFORMED, "missing request parameter")
        answer = await started(server, asked(parsed_body(request.encode())), principal)
    except RefusedError as error:
        await _refuse(socket, error)
        return
    leaving = asyncio.ensure_future(_left(socket))
    sending = asyncio.ensure_future(_send(socket, server, answer))
    try:
        await asyncio.wait(
            (leaving, sending),
            timeout=server.settings.websocket_seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
    finally:
        for task in (leaving, sending):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _left(socket: WebSocket) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass


async def _send(socket: WebSocket, server: Server, answer: queries.QueryResponse) -> None:
    try:
        async with contextlib.aclosing(_frames(server, answer)) as frames:
            async for frame in frames:
                await socket.send_text(frame)
        await _end(socket, DONE, "done")
    except MillstreamError as error:
        await _end(socket, FAILED, refusal(error, answer.parsed.text).message)
    except (WebSocketDisconnect, RuntimeError):
        # The client has disconnected.
        return
    except Exception as error:
        await _end(socket, FAILED, unexpected(error).message)
        raise
    finally:
        await queries.ended(server, answer)


async def _frames(server: Server, answer: queries.QueryResponse) -> AsyncGenerator[str, None]:
    """The schema, then a frame for each row, or for each line of PRINT."""
    if answer.prints:
        async with contextlib.aclosing(queries.lines(server, answer)) as lines:
            async for piece in lines:
                for line in piece.decode().splitlines():
                    yield line
        return
    yield text_of(
        [
            {"name": column.name, "schema": schema_object(column.type)}
            for column in answer.schema.columns
        ]
    )
    if isinstance(answer.result, Rows):
        for frame in _rows(Change(answer.result.table), answer.schema):
            yield frame
        return
    async for change in queries.arriving(server, answer):
        for frame in _rows(change, answer.schema):
            yield frame


def _rows(change: Change, schema: Schema) -> Iterator[str]:
    """A frame for each row, marked where it is a deletion. JSON has no line ends of its own: they
    separate the frames."""

    def framed(rows: pa.Table) -> bytes:
        texts = marked_texts(rows, schema)
        return "\n".join(f'{{"row":{{"columns":{text}}}}}' for text in texts).encode()

    for start in range(0, change.rows.num_rows, queries.ROWS_AT_ONCE):
        yield from queries.shared(change, PATH, start, framed).decode().split("\n")


async def _refuse(socket: WebSocket, error: RefusedError) -> None:
    code = NOT_READY if error.status == 503 else BAD_REQUEST
    await _end(socket, FAILED if error.status in (401, 403) else code, error.message)


async def _end(socket: WebSocket, code: int, reason: str) -> None:
    """The last frame has the reason, as the close does."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        await socket.send_text(text_of({"error": reason}))
        cut = reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
        await socket.close(code, cut)

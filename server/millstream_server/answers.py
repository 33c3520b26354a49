"""Responses over ASGI: objects, errors, and streams that end when their client disconnects."""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Mapping,
)
from typing import Any, TypeVar, cast

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from millstream_server.failures import RefusedError
from millstream_server.results.values import text_of

T = TypeVar("T")


def objects(value: Any, media_type: str, status: int = 200) -> Response:
    """A JSON value."""
    return Response(text_of(value), status, media_type=media_type)


def refused(error: RefusedError, media_type: str) -> Response:
    """An error, in the format of all clients."""
    return Response(
        text_of(error.entity()), error.status, headers=error.headers, media_type=media_type
    )


class Streamed(Response):
    """A streamed body. The next piece is produced only after the connection has taken the last one;
    when the client disconnects, `pieces` is closed at once, wherever it waits. A stream that is
    also `reading` the request's body detects the disconnect itself."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str,
        headers: Mapping[str, str] | None = None,
        *,
        reading: bool = False,
        keeps: object = None,
    ) -> None:
        """`keeps`: an object to keep alive until the client has taken the last piece."""
        super().__init__(None, 200, headers, media_type)
        self._keeps = keeps
        del self.headers["content-length"]
        self._pieces = pieces
        self._reading = reading

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        if self._reading:
            await self._send(send)
            return
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                await sending
        finally:
            for task in (sending, leaving):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with contextlib.aclosing(self._pieces) as pieces:
            async for piece in pieces:
                if piece:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Reading:
    """A request's body as it arrives. The rest of a refused one is read before the response: data
    that arrives later would end the connection."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = False

    async def __call__(self) -> Message:
        """The next piece."""
        message = await self._receive()
        self._ended = not message.get("more_body", False)
        return message

    async def rest(self, bytes_max: int, seconds: float) -> None:
        """Read the rest, unless it is too large or too slow."""
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._ended and size <= bytes_max:
                    size += len((await self()).get("body", b""))


async def in_time(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """The result of `work`; raises TimeoutError if it waits for longer. Work that need not wait,
    such as reading a body that arrived with its head, runs without a timer, which would cost as
    much."""
    try:
        waits_for = work.send(None)
    except StopIteration as ended:
        return cast(T, ended.value)
    async with asyncio.timeout(seconds):
        return await _resumed(work, waits_for)


@types.coroutine
def _resumed(work: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """The rest of a suspended coroutine."""
    while True:
        try:
            try:
                given = yield waits_for
            except BaseException as error:
                waits_for = work.throw(error)
            else:
                waits_for = work.send(given)
        except StopIteration as ended:
            return cast(T, ended.value)


@contextlib.asynccontextmanager
async def ended_by_leaving(receive: Receive, end: Callable[[], None]) -> AsyncIterator[None]:
    """While this context is open, call `end` as soon as the client disconnects. It begins after the
    request's body was read."""

    async def watch() -> None:
        await _left(receive)
        end()

    leaving = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        leaving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leaving


async def _left(receive: Receive) -> None:
    """Return when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass

"""Answers over ASGI: objects, errors, and streams that end when their client is gone."""

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
    """An error, as every client knows them."""
    return Response(
        text_of(error.entity()), error.status, headers=error.headers, media_type=media_type
    )


class Streamed(Response):
    """A body that is made as it goes. The next piece is made only when the connection has taken
    the last one; when the client leaves, `pieces` is closed at once, wherever it waits. One that is
    `reading` the body of the request meanwhile notices by itself."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str,
        headers: Mapping[str, str] | None = None,
        *,
        reading: bool = False,
        keeps: object = None,
    ) -> None:
        """`keeps`: what lives until the client has taken the last piece."""
        super().__init__(None, 200, headers, media_type)
        self._keeps = keeps
        del self.headers["content-length"]
        self._pieces = pieces
        self._reading = reading

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
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
    """A request's body as it comes. What is left of one that was refused is read before the answer:
    data that comes after it would end the connection."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = False

    async def __call__(self) -> Message:
        """The next piece."""
        message = await self._receive()
        self._ended = not message.get("more_body", False)
        return message

    async def rest(self, bytes_max: int, seconds: float) -> None:
        """Read what is left, if it is not too much or too slow."""
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._ended and size <= bytes_max:
                    size += len((await self()).get("body", b""))


async def in_time(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """What `work` returns; TimeoutError where it waits for longer. Work that need not wait, as
    reading a body that came with its head, is done without a timer, which costs as much."""
    try:
        waits_for = work.send(None)
    except StopIteration as ended:
        return cast(T, ended.value)
    async with asyncio.timeout(seconds):
        return await _resumed(work, waits_for)


@types.coroutine
def _resumed(work: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """The rest of a coroutine that has begun to wait."""
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
    """Within this, which begins when the body of the request was read, call `end` as soon as the
    client is gone."""

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
    """Return when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass

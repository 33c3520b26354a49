"""The checks that every request passes first, whatever its path."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millstream_server.answers import refused
from millstream_server.auth.guard import Guard
from millstream_server.failures import HEADERS_TOO_LARGE, RefusedError
from millstream_server.results.framing import KSQL

_REFUSABLE = "websocket.http.response"


@dataclass(frozen=True, slots=True)
class Entrance:
    """The application behind these checks. A refused request reaches no endpoint, and a refused
    websocket is not opened."""

    app: ASGIApp
    guard: Guard
    headers_max: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        try:
            if len(scope["headers"]) > self.headers_max:
                message = f"A request has at most {self.headers_max} headers"
                raise RefusedError(HEADERS_TOO_LARGE, message)
            self.guard.check_source(scope)
        except RefusedError as error:
            answer = refused(error, KSQL)
            if scope["type"] == "websocket":
                await _refuse_websocket(answer, scope, receive, send)
            else:
                await answer(scope, receive, send)
            return
        await self.app(scope, receive, send)


async def _refuse_websocket(answer: Response, scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    if _REFUSABLE not in scope.get("extensions", {}):
        await send({"type": "websocket.close"})
        return

    async def send_as_websocket(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    await answer({**scope, "type": "http"}, receive, send_as_websocket)

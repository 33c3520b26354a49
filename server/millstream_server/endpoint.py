"""One route of the HTTP API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from millstream_server.results.framing import JSON, KSQL
from millstream_server.server import Server

Call = Callable[[Request, Server], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One route. `body`: the name of the request body's schema, `gives`: the media types of the
    response; `always`: it also works while statements are not executed; `answer` and `error`: the
    names of the schemas of a JSON response, and of a refusal; `public`: it gives nothing of the
    database, and needs no authentication."""

    method: str
    path: str
    call: Call
    summary: str
    body: str = ""
    gives: tuple[str, ...] = (KSQL, JSON)
    always: bool = True
    answer: str = ""
    error: str = "Error"
    public: bool = False

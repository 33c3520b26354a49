"""All endpoints as one table, and the application that serves it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from millstream_server import cluster, endpoints, inserts, state, websocket
from millstream_server.answers import Reading, objects, refused
from millstream_server.auth.principal import ANONYMOUS
from millstream_server.console import pages
from millstream_server.endpoint import Endpoint
from millstream_server.entrance import Entrance
from millstream_server.failures import TOO_SLOW, UNACCEPTABLE, RefusedError, unexpected
from millstream_server.http.connections import AUTHENTICATED
from millstream_server.openapi import document
from millstream_server.registry.routes import REGISTRY_ENDPOINTS
from millstream_server.results.framing import ARROW, DELIMITED, JSON, KSQL, PROTOBUF
from millstream_server.server import Server

Handler = Callable[[Scope, Receive], Awaitable[Response]]
_LOG = logging.getLogger("millstream.server")


_ROWS = (KSQL, JSON, DELIMITED, PROTOBUF, ARROW)
ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET", "/", pages.root, "The console, or leads to /info", gives=(pages.HTML,), public=True
    ),
    Endpoint(
        "GET",
        "/console/{file}",
        pages.asset,
        "A file of the console",
        gives=pages.MEDIA_TYPES,
        public=True,
    ),
    Endpoint("GET", "/info", state.info, "Which server this is", answer="ServerInfo"),
    Endpoint("GET", "/healthcheck", state.healthcheck, "Whether its parts work", answer="Health"),
    Endpoint(
        "POST",
        "/ksql",
        endpoints.run_statements,
        "Run statements",
        "KsqlRequest",
        always=False,
        answer="Entities",
    ),
    Endpoint(
        "POST",
        "/ksql/terminate",
        cluster.terminate,
        "Destroy the service: its queries, its topics",
        "ClusterTerminateRequest",
        always=False,
        answer="Entities",
    ),
    Endpoint(
        "POST", "/query", endpoints.query, "SELECT or PRINT", "KsqlRequest", _ROWS, always=False
    ),
    Endpoint(
        "POST",
        "/query-stream",
        endpoints.query_stream,
        "SELECT or PRINT",
        "QueryStreamArgs",
        _ROWS,
        always=False,
    ),
    Endpoint(
        "POST",
        "/inserts-stream",
        inserts.inserts_stream,
        "Insert rows as they come, each acknowledged",
        "InsertsStream",
        (DELIMITED, JSON),
        always=False,
    ),
    Endpoint(
        "POST",
        "/close-query",
        endpoints.close_query,
        "End a push query",
        "CloseQueryArgs",
        (),
        always=False,
    ),
    Endpoint(
        "GET",
        "/history/{query}",
        endpoints.progress,
        "How far a query over history is",
        answer="Progress",
    ),
    Endpoint(
        "GET", "/status", state.all_statuses, "What became of all commands", answer="Statuses"
    ),
    Endpoint(
        "GET",
        "/status/{type}/{entity}/{action}",
        state.one_status,
        "What became of a command",
        answer="Status",
    ),
    Endpoint(
        "GET",
        "/is_valid_property/{property}",
        state.is_valid_property,
        "Whether a client may set a property",
        answer="Truth",
    ),
    Endpoint(
        "GET",
        "/clusterStatus",
        cluster.cluster_status,
        "The servers of the service",
        answer="Cluster",
    ),
    Endpoint(
        "POST",
        "/heartbeat",
        cluster.heartbeat,
        "From server to server",
        "Heartbeat",
        answer="Taken",
    ),
    Endpoint("POST", "/lag", cluster.lag, "From server to server", "LagReport", answer="Taken"),
    Endpoint("GET", "/v1/metadata", state.metadata, "The version and the ids", answer="Metadata"),
    Endpoint("GET", "/v1/metadata/id", state.metadata_id, "The ids", answer="Ids"),
    Endpoint("GET", "/chc/ready", state.ready, "Whether statements are executed", answer="Nothing"),
    Endpoint("GET", "/chc/live", state.live, "Whether the server answers", answer="Nothing"),
    Endpoint("GET", "/metrics", state.prometheus, "Figures for Prometheus", gives=state.SCRAPED),
    *REGISTRY_ENDPOINTS,
)


def application(server: Server, pages: Sequence[str] = ()) -> ASGIApp:
    """The ASGI application of a server. `pages`: the origins of other pages that may call it."""
    described = Endpoint(
        "GET", "/openapi.json", partial(_openapi, document(ENDPOINTS)), "This description"
    )
    answers = {endpoint: _answer(endpoint, server) for endpoint in (*ENDPOINTS, described)}
    routes: list[BaseRoute] = [
        Route(endpoint.path, partial(_routed, answer), methods=[endpoint.method])
        for endpoint, answer in answers.items()
    ]
    routes.append(WebSocketRoute(websocket.PATH, partial(websocket.ws_query, server=server)))
    made = _Shortcut(
        Starlette(routes=routes, exception_handlers={HTTPException: _elsewhere}),
        {
            (endpoint.method, endpoint.path): answer
            for endpoint, answer in answers.items()
            if "{" not in endpoint.path
        },
    )
    # Which pages may read responses; the guard decides which requests are handled.
    seen: ASGIApp = (
        CORSMiddleware(made, allow_origins=pages, allow_methods=["*"], allow_headers=["*"])
        if pages
        else made
    )
    return Entrance(seen, server.guard, server.settings.headers_max)


@dataclass(frozen=True, slots=True)
class _Shortcut:
    """The router, which calls routes with an exact path directly: a pull query by key takes no
    longer than a general route lookup."""

    routes: ASGIApp
    answers: Mapping[tuple[str, str], Handler]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self.answers.get((scope.get("method", ""), scope["path"]))
        if answer is None:
            await self.routes(scope, receive, send)
            return
        response = await answer(scope, receive)
        await response(scope, receive, send)


async def _routed(answer: Handler, request: Request) -> Response:
    return await answer(request.scope, request.receive)


async def _openapi(found: dict[str, object], request: Request, server: Server) -> Response:
    return objects(found, JSON)


async def _elsewhere(request: Request, error: Exception) -> Response:
    """Neither a path nor a method of ours."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    return PlainTextResponse("Not Found" if status == 404 else "Method Not Allowed", status)


def _answer(endpoint: Endpoint, server: Server) -> Handler:
    async def answer(scope: Scope, receive: Receive) -> Response:
        reading = Reading(receive)
        request = Request(scope, reading)
        try:
            return await _answered(endpoint, request, server)
        except RefusedError as error:
            if "content-length" in request.headers and error.code != TOO_SLOW:
                await reading.rest(server.settings.body_bytes_max, server.settings.body_seconds)
            if error.code == TOO_SLOW and scope.get("http_version", "").startswith("1"):
                # The rest of the body would be read as the next request.
                error.headers["connection"] = "close"
            if error.code == UNACCEPTABLE:
                return PlainTextResponse(error.message, 406)
            return refused(error, KSQL)

    return answer


async def _answered(endpoint: Endpoint, request: Request, server: Server) -> Response:
    """Run the guard, then call the endpoint; an unexpected error becomes a response."""
    guard, path = server.guard, endpoint.path
    try:
        principal = ANONYMOUS if endpoint.public else await guard.authenticate(request.scope)
        request.scope["millstream.principal"] = principal
        if principal is not ANONYMOUS and AUTHENTICATED in request.scope:
            request.scope[AUTHENTICATED]()
        guard.enter(principal, path)
        try:
            if not endpoint.always:
                server.check_serving()
            found = await endpoint.call(request, server)
        except BaseException:
            guard.leave(principal, path)
            raise
        return _Leaving(found, lambda: guard.leave(principal, path))
    except RefusedError:
        raise
    except Exception as error:
        _LOG.exception("%s %s failed", endpoint.method, path)
        return refused(unexpected(error), KSQL)


class _Leaving(Response):
    """A response with an action after it."""

    def __init__(self, inner: Response, then: Callable[[], None]) -> None:
        self._inner = inner
        self._then = then

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await self._inner(scope, receive, send)
        finally:
            self._then()

"""The endpoints for statements and queries, one function each (reference: rest-api, 1)."""

from __future__ import annotations

import asyncio
import secrets

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from millstream.query.results import History, Stream
from millstream.scripts.text import ParsedStatement
from millstream_server import statements
from millstream_server.answers import Streamed, ended_by_leaving, in_time, objects
from millstream_server.auth.principal import ANONYMOUS, Principal
from millstream_server.failures import (
    BAD_STATEMENT,
    NOT_FOUND,
    TOO_LARGE,
    TOO_SLOW,
    UNACCEPTABLE,
    RefusedError,
)
from millstream_server.filling import Filling
from millstream_server.http.protocols import LIVE
from millstream_server.requests import (
    Asked,
    accepted,
    asked,
    parsed_body,
)
from millstream_server.results import queries
from millstream_server.results.framing import (
    ARROW,
    DELIMITED,
    JSON,
    KSQL,
    PROTOBUF,
    ArrowStream,
    Delimited,
    Framing,
    JsonFramings,
    Objects,
    PlainArray,
)
from millstream_server.results.protobuf import ProtobufObjects
from millstream_server.server import Server

OBJECTS = (KSQL, JSON)
QUERY_TYPES = (KSQL, JSON, DELIMITED, PROTOBUF, ARROW)
CHANGES = "changes=true"
"""A parameter of Arrow's media type: the rows of a push query with their deletions."""
QUERY_HEADER = "millstream-query"
"""The header of a response over history with the name for requesting its progress."""


async def body_of(request: Request, server: Server) -> bytes:
    """The whole body; raises RefusedError if it is too large, or does not arrive."""
    settings = server.settings
    try:
        return await in_time(_read(request, settings.body_bytes_max), settings.body_seconds)
    except TimeoutError as error:
        raise RefusedError(TOO_SLOW, "The request did not come in time") from error


async def _read(request: Request, bytes_max: int) -> bytes:
    found, more = bytearray(), True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        found += message.get("body", b"")
        if len(found) > bytes_max:
            raise RefusedError(TOO_LARGE, f"A request has at most {bytes_max} bytes")
        more = message.get("more_body", False)
    return bytes(found)


def principal_of(request: Request) -> Principal:
    """The principal of the request, from the guard."""
    found = request.scope.get("millstream.principal", ANONYMOUS)
    assert isinstance(found, Principal)
    return found


def media_type(request: Request) -> str:
    """The media type of a response with one JSON value."""
    return accepted(request.headers.get("accept", ""), OBJECTS, KSQL)


async def run_statements(request: Request, server: Server) -> Response:
    """POST /ksql."""
    kind = media_type(request)
    wanted = asked(parsed_body(await body_of(request, server)))
    await server.caught_up(wanted.after_command)
    filling = Filling()
    async with ended_by_leaving(request.receive, filling.cancel):
        found = await server.run(statements.execute, server, wanted, principal_of(request), filling)
    return objects(found, kind)


async def query(request: Request, server: Server) -> Response:
    """POST /query."""
    kind = accepted(request.headers.get("accept", ""), QUERY_TYPES, KSQL)
    return await _query(request, server, KSQL if kind == JSON else kind)


async def query_stream(request: Request, server: Server) -> Response:
    """POST /query-stream."""
    return await _query(
        request, server, accepted(request.headers.get("accept", ""), QUERY_TYPES, DELIMITED)
    )


async def _query(request: Request, server: Server, kind: str) -> Response:
    wanted = asked(parsed_body(await body_of(request, server)))
    await server.caught_up(wanted.after_command)
    session = server.session(wanted)
    framing = framing_of(kind, pull=True)
    found = await server.lookups.find(
        wanted, principal_of(request), session, as_table=not isinstance(framing, JsonFramings)
    )
    if found is not None:
        return Response(queries.whole(found, framing), media_type=framing.media_type)
    answer = await started(server, wanted, principal_of(request))
    if answer.prints:
        if kind not in (DELIMITED, KSQL):
            await queries.ended(server, answer)
            raise RefusedError(UNACCEPTABLE, f"PRINT gives text: accept {DELIMITED}")
        return Streamed(queries.lines(server, answer), DELIMITED)
    changes = isinstance(answer.result, Stream) and CHANGES in request.headers.get("accept", "")
    framing = framing_of(kind, pull=answer.pull, changes=changes)
    headers = LIVE if kind == DELIMITED and answer.query_id is not None else None
    if isinstance(answer.result, History):
        headers = {QUERY_HEADER: server.reading[answer.result]}
    pieces = queries.pieces(server, answer, framing)
    return Streamed(pieces, framing.media_type, headers, keeps=answer)


async def started(server: Server, wanted: Asked, principal: Principal) -> queries.QueryResponse:
    """A running query. If the client disconnects before it runs, it is ended right after its
    start."""
    parsed = await server.run(queries.query_of, server, wanted)
    return await begun(server, wanted, parsed, principal)


async def begun(
    server: Server, wanted: Asked, parsed: ParsedStatement, principal: Principal
) -> queries.QueryResponse:
    """The same for a query that is parsed."""
    if not queries.pulls(parsed):
        return await _begun(server, wanted, parsed, principal)
    with server.pull():
        answer = await _begun(server, wanted, parsed, principal)
        if isinstance(answer.result, History):
            server.reading[answer.result] = secrets.token_hex(16)
        return answer


async def _begun(
    server: Server, wanted: Asked, parsed: ParsedStatement, principal: Principal
) -> queries.QueryResponse:
    starting = asyncio.ensure_future(server.run(queries.start, server, wanted, parsed, principal))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        answer = await starting
        await queries.ended(server, answer)
        raise


def framing_of(kind: str, *, pull: bool, changes: bool = False) -> Framing:
    """The framing of a media type; `changes`: see `ArrowStream`."""
    if kind in (KSQL, PROTOBUF):
        return Objects(pull=pull) if kind == KSQL else ProtobufObjects(pull=pull)
    if kind == ARROW:
        return ArrowStream(changes=changes)
    return PlainArray() if kind == JSON else Delimited()


async def progress(request: Request, server: Server) -> Response:
    """GET /history/{query}."""
    wanted = request.path_params["query"]
    found = next((one for one, name in server.reading.items() if name == wanted), None)
    if found is None:
        raise RefusedError(NOT_FOUND, f"No query over history with id {wanted}")
    stages = await server.run(found.progress)
    told = [{"name": one.name, "done": one.done, "total": one.total} for one in stages]
    return objects({"stages": told}, media_type(request))


async def close_query(request: Request, server: Server) -> Response:
    """POST /close-query."""
    query_id = parsed_body(await body_of(request, server)).get("queryId")
    stream = server.engine.push_queries.streams.get(query_id) if isinstance(query_id, str) else None
    if stream is None or not server.may_end(principal_of(request), stream.query_id):
        raise RefusedError(BAD_STATEMENT, f"No query with id {query_id}")
    await server.run(stream.close)
    return Response(b"", 200)

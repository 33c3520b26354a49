"""The endpoints about the server's state, one function each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from millstream.metrics.prometheus import CONTENT_TYPE, OPENMETRICS_CONTENT_TYPE, exposition
from millstream.model.errors import MillstreamError
from millstream_server.answers import objects
from millstream_server.endpoints import media_type
from millstream_server.failures import MALFORMED, NOT_FOUND, RefusedError, refusal
from millstream_server.requests import accepted
from millstream_server.server import COMPATIBLE_VERSION, Server

TEXT, OPENMETRICS = "text/plain", "application/openmetrics-text"
SCRAPED = (TEXT, OPENMETRICS)
"""The media types of metrics."""


async def info(request: Request, server: Server) -> Response:
    """GET /info."""
    about = {
        "version": COMPATIBLE_VERSION,
        "kafkaClusterId": server.engine.cluster.host_info.cluster_id,
        "ksqlServiceId": server.settings.service_id,
        "serverStatus": "RUNNING" if _healthy(server) else "ERROR",
    }
    return objects({"KsqlServerInfo": about}, media_type(request))


async def healthcheck(request: Request, server: Server) -> Response:
    """GET /healthcheck."""
    engine = server.engine
    parts = {
        "metastore": not engine.closed,
        "kafka": not engine.closed,
        "commandRunner": _healthy(server),
    }
    found = {
        "isHealthy": all(parts.values()),
        "details": {name: {"isHealthy": healthy} for name, healthy in parts.items()},
        "serverState": server.state.value,
    }
    return objects(found, media_type(request))


def _healthy(server: Server) -> bool:
    engine = server.engine
    return (
        not engine.closed and engine.driver.failure is None and engine.command_topic.state.complete
    )


async def ready(request: Request, server: Server) -> Response:
    """GET /chc/ready."""
    server.check_serving()
    return objects({}, media_type(request))


async def live(request: Request, server: Server) -> Response:
    """GET /chc/live."""
    return objects({}, media_type(request))


async def all_statuses(request: Request, server: Server) -> Response:
    """GET /status."""
    known = await _known(server)
    found = {command: status["status"] for command, status in known.items()}
    return objects({"commandStatuses": found}, media_type(request))


async def one_status(request: Request, server: Server) -> Response:
    """GET /status/{type}/{entity}/{action}. The name may be written without quotes."""
    known = await _known(server)
    kind, entity, action = (request.path_params[name] for name in ("type", "entity", "action"))
    for name in (entity, f"`{entity}`"):
        status = known.get(f"{kind}/{name}/{action}")
        if status is not None:
            return objects(status, media_type(request))
    raise RefusedError(NOT_FOUND, f"Command not found: {kind}/{entity}/{action}")


async def _known(server: Server) -> Mapping[str, Mapping[str, Any]]:
    try:
        return await server.run(server.known_statuses)
    except MillstreamError as error:
        raise refusal(error, None) from error


async def is_valid_property(request: Request, server: Server) -> Response:
    """GET /is_valid_property/{name}: whether a client may set a property, by the rules of SET."""
    try:
        server.settings.overrides.check(request.path_params["property"])
    except MillstreamError as error:
        raise RefusedError(MALFORMED, str(error)) from error
    return objects(True, media_type(request))


async def metadata(request: Request, server: Server) -> Response:
    """GET /v1/metadata."""
    found = {"version": COMPATIBLE_VERSION, "clusterId": _cluster(server)}
    return objects(found, media_type(request))


async def metadata_id(request: Request, server: Server) -> Response:
    """GET /v1/metadata/id."""
    return objects(_cluster(server), media_type(request))


def _cluster(server: Server) -> dict[str, object]:
    clusters = {
        "kafka-cluster": server.engine.cluster.host_info.cluster_id,
        "ksql-cluster": server.settings.service_id,
    }
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


async def prometheus(request: Request, server: Server) -> Response:
    """GET /metrics, as OpenMetrics for a scraper that prefers it. A scraper that accepts neither
    gets the older format, as Prometheus' own libraries give it."""
    try:
        wanted = accepted(request.headers.get("accept", ""), SCRAPED, TEXT)
    except RefusedError:
        wanted = TEXT
    openmetrics = wanted == OPENMETRICS
    text = await server.run(
        lambda: exposition(server.engine.metrics.now(), openmetrics=openmetrics)
    )
    return Response(text, media_type=OPENMETRICS_CONTENT_TYPE if openmetrics else CONTENT_TYPE)

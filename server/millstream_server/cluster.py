"""The endpoints about a service of several servers, and its termination."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from millstream.cluster.host_info import PeerHost
from millstream.cluster.joining import hosted_partitions
from millstream.metrics.figures import QueryMetrics
from millstream.model.errors import MillstreamError
from millstream.query.session import Session
from millstream.scripts.text import parse_text
from millstream.service.execution import execute_statement
from millstream_server.answers import objects
from millstream_server.endpoints import body_of, media_type, principal_of
from millstream_server.entities import changed
from millstream_server.entities.changed import Entity
from millstream_server.entities.view import View
from millstream_server.failures import INTERNAL_ONLY, MALFORMED, RefusedError, refusal
from millstream_server.requests import parsed_body
from millstream_server.server import Server, State

TERMINATE = "TERMINATE CLUSTER;"
COMMAND = "cluster/TerminateCluster/terminate"


async def cluster_status(request: Request, server: Server) -> Response:
    """GET /clusterStatus."""
    kind = media_type(request)
    view = await server.run(server.view, principal_of(request))
    hosts = {other.host: _other(other, view) for other in view.peers}
    return objects({"clusterStatus": {**hosts, view.host: _this(view)}}, kind)


def _this(view: View) -> Entity:
    per_query, lags = {}, {}
    for query in _persistent(view):
        positions = query.positions
        standby = hosted_partitions(view.engine.cluster, query.query_id).standby
        active = [{"topic": p.topic, "partition": p.partition} for p in positions]
        per_query[query.query_id] = _shares(active, _sources(query, standby, view), query)
        lags[_store(query, view)] = _lags(
            {
                str(place.partition): {
                    "currentOffsetPosition": place.position,
                    "endOffsetPosition": place.position + (place.lag or 0),
                    "offsetLag": place.lag or 0,
                }
                for place in positions
            }
        )
    return _host(True, view.engine.clock(), per_query, lags)


def _other(other: PeerHost, view: View) -> Entity:
    """Another instance, from its own metadata."""
    per_query, lags = {}, {}
    for query in _persistent(view):
        held = other.metadata.hosted(query.query_id)
        active, standby = (_sources(query, held_, view) for held_ in (held.active, held.standby))
        per_query[query.query_id] = _shares(active, standby, query)
        behind = {**dict.fromkeys(held.active, 0), **held.standby}
        lags[_store(query, view)] = _lags(
            {str(number): {"offsetLag": lag} for number, lag in sorted(behind.items())}
        )
    return _host(other.alive, other.last_seen, per_query, lags)


def _persistent(view: View) -> list[QueryMetrics]:
    return [query for query in view.figures.queries if query.type == "PERSISTENT"]


def _store(query: QueryMetrics, view: View) -> str:
    return f"{view.engine.settings.internal_prefix}{query.query_id}"


def _sources(query: QueryMetrics, partitions: Iterable[int], view: View) -> list[Entity]:
    """These partitions of all sources of a query."""
    catalog = view.engine.catalog
    record = catalog.queries.get(query.query_id)
    names = record.sources if record else ()
    topics = dict.fromkeys(catalog.sources[name].topic for name in names)
    numbers = sorted(partitions)
    return [{"topic": name, "partition": number} for name in topics for number in numbers]


def _shares(active: list[Entity], standby: list[Entity], query: QueryMetrics) -> Entity:
    stores = [f"{sub.index}" for sub in query.sub_topologies]
    return {
        "activeStores": stores if active else [],
        "activePartitions": active,
        "standByStores": stores if standby else [],
        "standByPartitions": standby,
    }


def _lags(by_partition: Entity) -> Entity:
    return {"lagByPartition": by_partition, "size": len(by_partition)}


def _host(alive: bool, now: int, per_query: Entity, lags: Entity) -> Entity:
    return {
        "hostAlive": alive,
        "lastStatusUpdateMs": now,
        "activeStandbyPerQuery": per_query,
        "hostStoreLags": {"stateStoreLags": lags, "updateTimeMs": now},
    }


async def heartbeat(request: Request, server: Server) -> Response:
    """POST /heartbeat. It has no effect: servers exchange heartbeats through the log."""
    _check_internal(request, server)
    kind = media_type(request)
    given = parsed_body(await body_of(request, server))
    _check_host(given, "hostInfo")
    if not _whole(given.get("timestamp")):
        raise RefusedError(MALFORMED, "timestamp must be a whole number")
    return objects({"ok": True}, kind)


async def lag(request: Request, server: Server) -> Response:
    """POST /lag. It has no effect, like a heartbeat."""
    _check_internal(request, server)
    kind = media_type(request)
    given = parsed_body(await body_of(request, server))
    _check_host(given, "ksqlHost")
    if not isinstance(given.get("hostStoreLags"), dict):
        raise RefusedError(MALFORMED, "hostStoreLags must be an object")
    return objects({"ok": True}, kind)


def _check_internal(request: Request, server: Server) -> None:
    if server.settings.internal_listener:
        raise RefusedError(
            INTERNAL_ONLY,
            f"{request.url.path} is for other servers, which ask at ksql.internal.listener",
        )


def _check_host(given: Mapping[str, Any], name: str) -> None:
    match given.get(name):
        case {"host": str(), "port": port} if _whole(port):
            return
    raise RefusedError(MALFORMED, f"{name} must be an object with a host and a port")


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


async def terminate(request: Request, server: Server) -> Response:
    """POST /ksql/terminate."""
    kind = media_type(request)
    given = parsed_body(await body_of(request, server)).get("deleteTopicList") or []
    patterns = [_pattern(item) for item in given] if isinstance(given, list) else None
    if patterns is None:
        raise RefusedError(MALFORMED, "deleteTopicList must be a list of regular expressions")
    (parsed,) = parse_text("TERMINATE ALL;")
    principal = principal_of(request)
    server.guard.authorise(principal, parsed, Session(local=False))
    server.guard.record(principal, parsed)
    server.state = State.TERMINATING
    try:
        await server.run(_destroy, server, patterns)
    except MillstreamError as error:
        server.state = State.READY
        raise refusal(error, TERMINATE) from error
    server.state = State.TERMINATED
    status = {"status": "SUCCESS", "message": "Cluster terminated.", "queryId": None}
    server.statuses[COMMAND] = status
    number = server.last_command
    return objects([changed.current_status(TERMINATE, COMMAND, status, number)], kind)


def _pattern(text: object) -> re.Pattern[str]:
    try:
        return re.compile(str(text))
    except re.error as error:
        raise RefusedError(MALFORMED, f"Invalid pattern: {text}: {error}") from error


def _destroy(server: Server, patterns: Iterable[re.Pattern[str]]) -> None:
    """End all queries, drop all sources, and delete the topics of the named sinks."""
    engine, session = server.engine, Session(local=False)
    for stream in list(engine.push_queries.streams.values()):
        stream.close()
    sinks = [source.topic for source in engine.catalog.sources.values() if source.query_id]
    for parsed in parse_text("TERMINATE ALL;"):
        execute_statement(engine, parsed, session)
    while engine.catalog.sources:
        _drop_one(server, session)
    for topic in sinks:
        if any(p.fullmatch(topic) for p in patterns) and engine.log.topic(topic) is not None:
            engine.log.delete_topic(topic)


def _drop_one(server: Server, session: Session) -> None:
    """Drop a source that no other one depends on."""
    catalog = server.engine.catalog
    name = next(name for name in catalog.sources if not catalog.made_from(name))
    kind, quoted = catalog.sources[name].kind.value, name.replace("`", "``")
    for parsed in parse_text(f"DROP {kind} `{quoted}`;"):
        execute_statement(server.engine, parsed, session)

"""What each endpoint needs besides what its statements need, and which work it is."""

from __future__ import annotations

from millstream_server.auth.limits import Work
from millstream_server.auth.needs import Kind, Need, Operation

_OPERATE = frozenset({Need(Kind.SERVICE, "", Operation.OPERATE)})
_DESCRIBE = frozenset({Need(Kind.SERVICE, "", Operation.DESCRIBE)})
_NOTHING: frozenset[Need] = frozenset()
NEEDS = {
    "/": _NOTHING,
    "/info": _NOTHING,
    "/healthcheck": _NOTHING,
    "/chc/ready": _NOTHING,
    "/chc/live": _NOTHING,
    "/v1/metadata": _NOTHING,
    "/v1/metadata/id": _NOTHING,
    "/is_valid_property/{property}": _NOTHING,
    "/openapi.json": _NOTHING,
    "/ksql": _NOTHING,
    "/query": _NOTHING,
    "/query-stream": _NOTHING,
    "/inserts-stream": _NOTHING,
    "/close-query": _NOTHING,
    "/history/{query}": _NOTHING,
    "/ws/query": _NOTHING,
    "/status": _DESCRIBE,
    "/status/{type}/{entity}/{action}": _DESCRIBE,
    "/clusterStatus": _DESCRIBE,
    "/metrics": _DESCRIBE,
}
_WORKS = {
    "/ksql": Work.STATEMENT,
    "/ksql/terminate": Work.STATEMENT,
    "/query": Work.QUERY,
    "/query-stream": Work.QUERY,
    "/ws/query": Work.QUERY,
    "/inserts-stream": Work.INSERT,
}


def endpoint_needs(path: str) -> frozenset[Need]:
    """What a request to the endpoint of this route needs. Its statements are asked about one by
    one; an endpoint that is not listed is for those who may operate the service."""
    return NEEDS.get(path, _OPERATE)


def endpoint_work(path: str) -> Work:
    """Which limits hold for the endpoint of this route."""
    return _WORKS.get(path, Work.OTHER)

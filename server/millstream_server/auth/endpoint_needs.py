"""The permissions that each endpoint needs in addition to its statements, and its kind of work."""

from __future__ import annotations

from millstream_server.auth.limits import Work
from millstream_server.auth.needs import Kind, Need, Operation

_OPERATE = frozenset({Need(Kind.SERVICE, "", Operation.OPERATE)})
_DESCRIBE = frozenset({Need(Kind.SERVICE, "", Operation.DESCRIBE)})
_NOTHING: frozenset[Need] = frozenset()
REGISTRY_PATHS = (
    "/subjects",
    "/subjects/{subject}",
    "/subjects/{subject}/versions",
    "/subjects/{subject}/versions/{version}",
    "/subjects/{subject}/versions/{version}/schema",
    "/subjects/{subject}/versions/{version}/referencedby",
    "/compatibility/subjects/{subject}/versions",
    "/compatibility/subjects/{subject}/versions/{version}",
    "/schemas",
    "/schemas/types",
    "/schemas/guids/{guid}",
    "/schemas/ids/{id}",
    "/schemas/ids/{id}/schema",
    "/schemas/ids/{id}/subjects",
    "/schemas/ids/{id}/versions",
    "/config",
    "/config/{subject}",
    "/mode",
    "/mode/{subject}",
)
"""What these need depends on the subject and the method: `Guard.demand` checks it."""
POSTGRES = "/postgres"
"""Stands for PostgreSQL's protocol, which has no paths: for its queries. Its other statements count
as requests to /ksql."""
NEEDS = {
    "/": _NOTHING,
    "/console/{file}": _NOTHING,
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
    POSTGRES: _NOTHING,
    **dict.fromkeys(REGISTRY_PATHS, _NOTHING),
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
    POSTGRES: Work.QUERY,
    "/inserts-stream": Work.INSERT,
    "/subjects/{subject}/versions": Work.STATEMENT,
    "/compatibility/subjects/{subject}/versions": Work.STATEMENT,
    "/compatibility/subjects/{subject}/versions/{version}": Work.STATEMENT,
}


def endpoint_needs(path: str) -> frozenset[Need]:
    """The needs of a request to the endpoint of this route. Its statements are authorised one by
    one; an unlisted endpoint requires permission to operate the service."""
    return NEEDS.get(path, _OPERATE)


def endpoint_work(path: str) -> Work:
    """The kind of limits of the endpoint of this route."""
    return _WORKS.get(path, Work.OTHER)

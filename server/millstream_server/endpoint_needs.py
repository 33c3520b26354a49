"""What each endpoint needs besides what its statements need. One that is not listed needs what
administrators alone may do."""

from __future__ import annotations

from fnmatch import fnmatchcase

from millstream_server.needs import Kind, Need, Operation

_OPERATE = frozenset({Need(Kind.SERVICE, "", Operation.OPERATE)})
_DESCRIBE = frozenset({Need(Kind.SERVICE, "", Operation.DESCRIBE)})
_NOTHING: frozenset[Need] = frozenset()
_NEEDS: tuple[tuple[str, str, frozenset[Need]], ...] = (
    ("GET", "/", _NOTHING),
    ("GET", "/info", _NOTHING),
    ("GET", "/healthcheck", _NOTHING),
    ("GET", "/chc/ready", _NOTHING),
    ("GET", "/chc/live", _NOTHING),
    ("GET", "/v1/metadata", _NOTHING),
    ("GET", "/v1/metadata/id", _NOTHING),
    ("GET", "/is_valid_property/*", _NOTHING),
    ("GET", "/openapi.json", _NOTHING),
    ("POST", "/ksql", _NOTHING),
    ("POST", "/query", _NOTHING),
    ("POST", "/query-stream", _NOTHING),
    ("POST", "/inserts-stream", _NOTHING),
    ("POST", "/close-query", _NOTHING),
    ("GET", "/ws/query", _NOTHING),
    ("GET", "/status", _DESCRIBE),
    ("GET", "/status/*", _DESCRIBE),
    ("GET", "/clusterStatus", _DESCRIBE),
    ("GET", "/metrics", _DESCRIBE),
    ("POST", "/ksql/terminate", _OPERATE),
    ("POST", "/heartbeat", _OPERATE),
    ("POST", "/lag", _OPERATE),
)


def endpoint_needs(method: str, path: str) -> frozenset[Need]:
    """What a request to the endpoint needs; statements are asked about one by one as they run."""
    method = "GET" if method == "HEAD" else method
    for known, pattern, needs in _NEEDS:
        if method == known and fnmatchcase(path, pattern):
            return needs
    return _OPERATE

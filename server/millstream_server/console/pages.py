"""Serves the files of the console; they hold nothing of the database and need no credentials."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from millstream_server.failures import NOT_FOUND, RefusedError
from millstream_server.server import Server

HTML = "text/html"
_TYPES = {
    ".html": HTML,
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
MEDIA_TYPES = tuple(_TYPES.values())


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is, and compressed."""

    plain: bytes
    packed: bytes
    media_type: str


async def root(request: Request, server: Server) -> Response:
    """GET /: the console for browsers; other clients are led to /info, as by ksqlDB."""
    if HTML in request.headers.get("accept", ""):
        return _answer(_files()["index.html"], request)
    return RedirectResponse("/info", 307)


async def asset(request: Request, server: Server) -> Response:
    """GET /console/{file}."""
    name = request.path_params["file"]
    found = _files().get(name)
    if found is None:
        raise RefusedError(NOT_FOUND, f"The console has no file {name}")
    return _answer(found, request)


def _answer(found: _File, request: Request) -> Response:
    headers = {"vary": "accept-encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(found.plain, headers=headers, media_type=found.media_type)
    headers["content-encoding"] = "gzip"
    return Response(found.packed, headers=headers, media_type=found.media_type)


@cache
def _files() -> dict[str, _File]:
    """All files by name."""
    found = {}
    for path in files(__package__).joinpath("static").iterdir():
        plain = path.read_bytes()
        media_type = _TYPES[path.name[path.name.rindex(".") :]]
        found[path.name] = _File(plain, gzip.compress(plain, mtime=0), media_type)
    return found

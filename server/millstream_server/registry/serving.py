"""What each endpoint of the registry is given, and how it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from millstream.model.errors import MillstreamError
from millstream.model.schema_text import Registered
from millstream.schemas.embedded import EmbeddedRegistry
from millstream_server.answers import objects
from millstream_server.auth.guard import Guard
from millstream_server.auth.needs import Kind, Need, Operation
from millstream_server.auth.principal import Principal
from millstream_server.auth.visible import VisibleCatalog
from millstream_server.endpoint import Call
from millstream_server.endpoints import body_of, principal_of
from millstream_server.failures import NO_REGISTRY, NOT_FOUND, RefusedError
from millstream_server.registry.failures import (
    INCOMPATIBLE,
    INVALID_VERSION,
    no_subject,
    no_version,
    refusal,
)
from millstream_server.requests import parsed_body
from millstream_server.server import Server

REGISTRY = "application/vnd.schemaregistry.v1+json"
_LATEST = ("latest", "-1")
_VERSION_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to the registry. `path` and `query`: its parameters; `body`: an object."""

    registry: EmbeddedRegistry
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]
    principal: Principal
    guard: Guard
    sight: VisibleCatalog

    @property
    def subject(self) -> str:
        """The subject in the path."""
        return self.path["subject"]

    def demand(self, operation: Operation, subject: str | None = None) -> None:
        """Raise RefusedError if the principal may not do this to a subject, by default the one in
        the path."""
        named = self.subject if subject is None else subject
        self.guard.demand(self.principal, Need(Kind.SUBJECT, named, operation))

    def demand_service(self, operation: Operation) -> None:
        """Raise RefusedError if the principal may not do this to the whole registry."""
        self.guard.demand(self.principal, Need(Kind.SERVICE, "", operation))

    def flag(self, name: str) -> bool:
        """A parameter that is true or false."""
        return self.query.get(name, "").lower() == "true"

    def visible(self, subjects: Iterable[str]) -> list[str]:
        """The subjects among these that the principal may see."""
        return [subject for subject in subjects if self.sight.subject(subject)]

    def versions(self, *, deleted: bool = False) -> tuple[Registered, ...]:
        """The versions of the subject in the path. Raises RefusedError for none."""
        found = self.registry.versions(self.subject, deleted=deleted)
        if not found:
            raise no_subject(self.subject)
        return found

    def version(self, *, deleted: bool = False) -> Registered:
        """The version in the path of the subject in it. Raises RefusedError for none."""
        wanted, found = self.path["version"], self.versions(deleted=deleted)
        if wanted in _LATEST:
            return found[-1]
        number = int(wanted) if wanted.isdecimal() and len(wanted) < 11 else 0
        if not 1 <= number <= _VERSION_MAX:
            raise RefusedError(
                INVALID_VERSION,
                f"The specified version '{wanted}' is not a valid version id. Allowed values are"
                ' between [1, 2^31-1] and the string "latest"',
            )
        for each in found:
            if each.version == number:
                return each
        raise no_version(number)


def endpoint(call: Callable[[Asked], Any]) -> Call:
    """An endpoint that answers with what `call` returns, as JSON, or as text if it is one."""

    async def answer(request: Request, server: Server) -> Response:
        try:
            registry = _registry(server)
            has_body = request.method in ("POST", "PUT")
            body = parsed_body(await body_of(request, server)) if has_body else {}
            principal = principal_of(request)
            sight = server.guard.sight(principal, server.engine.catalog)
            path, query = request.path_params, dict(request.query_params)
            asked = Asked(registry, path, query, body, principal, server.guard, sight)
            found = await server.run(call, asked)
        except MillstreamError as error:
            return _refused(refusal(error))
        except RefusedError as error:
            return _refused(error)
        if isinstance(found, _Text):
            return Response(found.text, media_type=REGISTRY)
        return objects(found, REGISTRY)

    return answer


@dataclass(frozen=True, slots=True)
class _Text:
    text: str


def plain(text: str) -> object:
    """An answer that is a text as it is, such as a schema."""
    return _Text(text)


def _registry(server: Server) -> EmbeddedRegistry:
    found = server.engine.schemas
    if found is None:
        raise RefusedError(NO_REGISTRY, "This server has no schema registry")
    if not isinstance(found, EmbeddedRegistry):
        raise RefusedError(NOT_FOUND, f"The schema registry of this server is at {found.url}")
    return found


def _refused(error: RefusedError) -> Response:
    """An error as clients of registries know it."""
    code = error.status if error.code == INCOMPATIBLE else error.code
    made = objects({"error_code": code, "message": error.message}, REGISTRY, error.status)
    made.headers.update(error.headers)
    return made

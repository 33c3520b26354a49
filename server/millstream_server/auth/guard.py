"""Where authentication, authorisation and limits plug in; without them everybody may do all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from millstream.catalog.catalog import Catalog
from millstream.service.session import Session
from millstream.service.text import ParsedStatement
from millstream_server.auth.access import Access
from millstream_server.auth.principal import ANONYMOUS, Principal
from millstream_server.auth.visible import VisibleCatalog

Scope = Mapping[str, Any]
"""A connection as ASGI describes it."""


class Guard(Protocol):
    """Asked before anything is done; each raises `RefusedError` to say no. `authorise` is called
    where it may wait, the others in the thread of the event loop."""

    def check_source(self, scope: Scope) -> None:
        """Whether the request was sent to this server, and by a client that may call; asked of
        each request before anything else."""

    async def authenticate(self, scope: Scope) -> Principal:
        """Who asks for this path; called for each request, before its body is read."""

    def recognise_again(self, principal: Principal) -> Principal:
        """The same as they are now, for what goes on; called where it may wait."""

    def enter(self, principal: Principal, path: str) -> None:
        """A request begins: it may be one too many, or to an endpoint that is not for them."""

    def leave(self, principal: Principal, path: str) -> None:
        """A request that was let in is over."""

    def authorise(self, principal: Principal, statement: ParsedStatement, session: Session) -> None:
        """Whether they may execute the statement."""

    def record(self, principal: Principal, statement: ParsedStatement) -> None:
        """A statement is about to be executed."""

    def sight(self, principal: Principal, catalog: Catalog) -> VisibleCatalog:
        """What of the catalog they may see."""


class NoAuthentication:
    """Everybody may do everything."""

    def check_source(self, scope: Scope) -> None:
        """See `Guard`."""

    async def authenticate(self, scope: Scope) -> Principal:
        """See `Guard`."""
        return ANONYMOUS

    def recognise_again(self, principal: Principal) -> Principal:
        """See `Guard`."""
        return principal

    def enter(self, principal: Principal, path: str) -> None:
        """See `Guard`."""

    def leave(self, principal: Principal, path: str) -> None:
        """See `Guard`."""

    def authorise(self, principal: Principal, statement: ParsedStatement, session: Session) -> None:
        """See `Guard`."""

    def record(self, principal: Principal, statement: ParsedStatement) -> None:
        """See `Guard`."""

    def sight(self, principal: Principal, catalog: Catalog) -> VisibleCatalog:
        """See `Guard`."""
        return VisibleCatalog(catalog, Access(open=True), principal)

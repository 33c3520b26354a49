"""The interface for authentication, authorisation and limits; by default everyone may do
everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from millstream.catalog.catalog import Catalog
from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement
from millstream_server.auth.access import Access
from millstream_server.auth.auth import Method
from millstream_server.auth.needs import Need
from millstream_server.auth.principal import ANONYMOUS, Principal
from millstream_server.auth.scram import Verifier
from millstream_server.auth.visible import VisibleCatalog

Scope = Mapping[str, Any]
"""A connection's ASGI scope."""


class Guard(Protocol):
    """Checks that run before any work; each raises `RefusedError` to refuse. `authorise` is called
    where it may block, the others in the event loop's thread."""

    def check_source(self, scope: Scope) -> None:
        """Check that the request was addressed to this server, by an allowed client; called first
        for each request."""

    async def authenticate(self, scope: Scope) -> Principal:
        """Authenticate the client for this path; called for each request, before its body is
        read."""

    def method(self, scope: Scope) -> Method:
        """How the client of a connection authenticates."""

    def verifier(self, name: str, scope: Scope) -> Verifier:
        """What a client has to prove by SCRAM to be this user."""

    def proved(self, name: str, verifier: Verifier, scope: Scope, *, right: bool) -> Principal:
        """The user that a client has proved to be."""

    def recognise_again(self, principal: Principal) -> Principal:
        """The current state of a principal, for an ongoing operation; called where it may block."""

    def enter(self, principal: Principal, path: str) -> None:
        """Admit a request: refuse it if there are too many, or if the principal may not use the
        endpoint."""

    def leave(self, principal: Principal, path: str) -> None:
        """Note the end of an admitted request."""

    def authorise(self, principal: Principal, statement: ParsedStatement, session: Session) -> None:
        """Check that the principal may execute the statement."""

    def demand(self, principal: Principal, need: Need) -> None:
        """Check that the principal may do something that is no statement, and note it if it changes
        anything."""

    def record(self, principal: Principal, statement: ParsedStatement) -> None:
        """Note that a statement is about to be executed."""

    def sight(self, principal: Principal, catalog: Catalog) -> VisibleCatalog:
        """The part of the catalog that the principal may see."""


class NoAuthentication:
    """A guard that allows everything."""

    def check_source(self, scope: Scope) -> None:
        """See `Guard`."""

    async def authenticate(self, scope: Scope) -> Principal:
        """See `Guard`."""
        return ANONYMOUS

    def method(self, scope: Scope) -> Method:
        """See `Guard`."""
        return Method.NONE

    def verifier(self, name: str, scope: Scope) -> Verifier:
        """See `Guard`."""
        raise AssertionError("nobody authenticates")

    def proved(self, name: str, verifier: Verifier, scope: Scope, *, right: bool) -> Principal:
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

    def demand(self, principal: Principal, need: Need) -> None:
        """See `Guard`."""

    def record(self, principal: Principal, statement: ParsedStatement) -> None:
        """See `Guard`."""

    def sight(self, principal: Principal, catalog: Catalog) -> VisibleCatalog:
        """See `Guard`."""
        return VisibleCatalog(catalog, Access(open=True), principal)

"""The guard of a started server: authentication, authorisation, limits, and the audit log."""

from __future__ import annotations

import asyncio
from collections.abc import Container
from dataclasses import dataclass

from millstream.catalog.catalog import Catalog
from millstream.model.errors import MillstreamError
from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement
from millstream.service.engine import Engine
from millstream_server.auth.access import Access, authorise
from millstream_server.auth.audit import Audit, Event
from millstream_server.auth.auth import Authenticator, Method
from millstream_server.auth.endpoint_needs import endpoint_needs, endpoint_work
from millstream_server.auth.guard import Scope
from millstream_server.auth.limits import Limits
from millstream_server.auth.needs import AccessContext, Need, Operation, needs_of
from millstream_server.auth.origins import Origins
from millstream_server.auth.principal import ANONYMOUS, Principal, Refusal
from millstream_server.auth.scram import Verifier
from millstream_server.auth.visible import VisibleCatalog
from millstream_server.failures import RefusedError, refusal
from millstream_server.http.connections import PEER

_READING = (Operation.READ, Operation.DESCRIBE)


@dataclass(frozen=True, slots=True)
class Policy:
    """Authentication and authorisation by a consistent set of files."""

    authenticator: Authenticator
    access: Access


@dataclass(slots=True)
class Gate:
    """Implements `Guard`. A new `policy` applies from the next request and the next statement
    on."""

    engine: Engine
    policy: Policy
    limits: Limits
    audit: Audit
    origins: Origins
    functions: frozenset[str] = frozenset()
    """The names of user functions."""

    def check_source(self, scope: Scope) -> None:
        """See `Guard`."""
        came_in = (scope.get("server") or ("",))[0]
        refused = self.origins.refusal(scope["headers"], scope.get("scheme", "http"), came_in)
        if refused is not None:
            address = (scope.get("client") or ("",))[0]
            raise self._refused(refused, path=scope["path"], address=address)

    async def authenticate(self, scope: Scope) -> Principal:
        """See `Guard`. Passwords and signatures are checked in a thread."""
        address = (scope.get("client") or ("",))[0]
        if not self.policy.authenticator.on:
            return ANONYMOUS
        found = await asyncio.to_thread(
            self.policy.authenticator.authenticate,
            scope["headers"],
            scope.get(PEER),
            path=scope["path"],
            address=address,
        )
        if isinstance(found, Refusal):
            raise self._refused(found, path=scope["path"], address=address)
        return found

    def method(self, scope: Scope) -> Method:
        """See `Guard`."""
        return self.policy.authenticator.method(scope.get(PEER), scope["path"])

    def verifier(self, name: str, scope: Scope) -> Verifier:
        """See `Guard`."""
        address = scope["client"][0]
        found = self.policy.authenticator.verifier(name, address)
        if isinstance(found, Refusal):
            raise self._refused(found, path=scope["path"], address=address)
        return found

    def proved(self, name: str, verifier: Verifier, scope: Scope, *, right: bool) -> Principal:
        """See `Guard`."""
        address = scope["client"][0]
        found = self.policy.authenticator.proved(name, verifier, address, right=right)
        if isinstance(found, Refusal):
            raise self._refused(found, path=scope["path"], address=address)
        return found

    def recognise_again(self, principal: Principal) -> Principal:
        """See `Guard`."""
        found = self.policy.authenticator.again(principal)
        if isinstance(found, Refusal):
            raise self._refused(found, principal)
        return found

    def enter(self, principal: Principal, path: str) -> None:
        """See `Guard`. A path without authentication needs no permission either."""
        free = principal is ANONYMOUS and self.policy.authenticator.on
        refused = None if free else authorise(self.policy.access, principal, endpoint_needs(path))
        refused = refused or self.limits.admit(principal, endpoint_work(path))
        if refused is not None:
            raise self._refused(refused, principal, path=path)

    def leave(self, principal: Principal, path: str) -> None:
        """See `Guard`."""
        self.limits.release(principal, endpoint_work(path))

    def authorise(self, principal: Principal, statement: ParsedStatement, session: Session) -> None:
        """See `Guard`."""
        around = AccessContext(
            self.engine.catalog,
            _Topics(self.engine),
            self.functions,
            session.properties,
        )
        try:
            needs = needs_of(statement.statement, around, statement.text)
        except MillstreamError as error:
            raise refusal(error, statement.text) from error
        refused = authorise(self.policy.access, principal, needs)
        if refused is not None:
            raise self._refused(refused, principal, statement=statement.text)

    def demand(self, principal: Principal, need: Need) -> None:
        """See `Guard`."""
        refused = authorise(self.policy.access, principal, [need])
        if refused is not None:
            raise self._refused(refused, principal)
        if self.policy.authenticator.on and need.operation not in _READING:
            self.audit.event(Event.STATEMENT, principal, statement=str(need))

    def record(self, principal: Principal, statement: ParsedStatement) -> None:
        """See `Guard`."""
        if self.policy.authenticator.on:
            self.audit.event(Event.STATEMENT, principal, statement=statement.text)

    def sight(self, principal: Principal, catalog: Catalog) -> VisibleCatalog:
        """See `Guard`."""
        return VisibleCatalog(catalog, self.policy.access, principal)

    def _refused(
        self,
        refused: Refusal,
        principal: Principal | None = None,
        *,
        statement: str | None = None,
        **fields: str,
    ) -> RefusedError:
        told = fields if statement is None else {**fields, "statement": statement}
        self.audit.refused(refused, principal, **told)
        message = " ".join(filter(None, (refused.message, refused.hint)))
        return RefusedError(refused.error_code, message, statement, headers=dict(refused.headers))


class _Topics(Container[str]):
    """The names of existing topics, requested one at a time."""

    def __init__(self, engine: Engine) -> None:
        self._log = engine.log

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._log.topic(name) is not None

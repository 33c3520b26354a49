"""Ongoing operations of clients, which end when their permission is revoked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement
from millstream_server.auth.guard import Guard
from millstream_server.auth.principal import Principal
from millstream_server.failures import RefusedError, RevokedError


@dataclass(slots=True, eq=False)
class Ongoing:
    """A query or an insert stream of a principal."""

    principal: Principal
    statement: ParsedStatement
    session: Session
    _revoked: RevokedError | None = None
    _end: Callable[[RevokedError], None] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ends_by(self, end: Callable[[RevokedError], None]) -> None:
        """Call `end` when it is revoked; at once if it was revoked already."""
        with self._lock:
            self._end, revoked = end, self._revoked
        if revoked is not None:
            end(revoked)

    def revoke(self, refused: RefusedError) -> None:
        """End it. May block."""
        with self._lock:
            if self._revoked is not None:
                return
            revoked = self._revoked = RevokedError(refused)
            end = self._end
        if end is not None:
            end(revoked)

    def check(self) -> None:
        """Raise RevokedError if it is revoked."""
        if self._revoked is not None:
            raise self._revoked


class OngoingWork:
    """All ongoing operations of a server. Thread-safe."""

    def __init__(self) -> None:
        self._all: set[Ongoing] = set()
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """The number of ongoing operations."""
        return len(self._all)

    def begin(self, principal: Principal, statement: ParsedStatement, session: Session) -> Ongoing:
        """Register an operation. Call this before it is authorised, so that a concurrent `recheck`
        sees it."""
        begun = Ongoing(principal, statement, session)
        with self._lock:
            self._all.add(begun)
        return begun

    def end(self, ongoing: Ongoing) -> None:
        """Remove an operation."""
        with self._lock:
            self._all.discard(ongoing)

    def recheck(self, guard: Guard) -> None:
        """End operations that the guard no longer allows. May block: call it in a thread."""
        with self._lock:
            found = tuple(self._all)
        for ongoing in found:
            try:
                principal = guard.recognise_again(ongoing.principal)
                guard.authorise(principal, ongoing.statement, ongoing.session)
            except RefusedError as error:
                # Errors with other causes do not end an operation.
                if error.status in (401, 403):
                    ongoing.revoke(error)

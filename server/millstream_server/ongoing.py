"""What goes on for a client after it was allowed: it ends where that is taken back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from millstream.service.session import Session
from millstream.service.text import ParsedStatement
from millstream_server.auth.guard import Guard
from millstream_server.auth.principal import Principal
from millstream_server.failures import RefusedError, RevokedError


@dataclass(slots=True, eq=False)
class Ongoing:
    """A query, or rows that are being inserted, of a principal."""

    principal: Principal
    statement: ParsedStatement
    session: Session
    _revoked: RevokedError | None = None
    _end: Callable[[RevokedError], None] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ends_by(self, end: Callable[[RevokedError], None]) -> None:
        """Call `end` when it is revoked; at once where it was revoked meanwhile."""
        with self._lock:
            self._end, revoked = end, self._revoked
        if revoked is not None:
            end(revoked)

    def revoke(self, refused: RefusedError) -> None:
        """End it. May wait."""
        with self._lock:
            if self._revoked is not None:
                return
            revoked = self._revoked = RevokedError(refused)
            end = self._end
        if end is not None:
            end(revoked)

    def check(self) -> None:
        """RevokedError where it may not go on."""
        if self._revoked is not None:
            raise self._revoked


class OngoingWork:
    """All of a server. Thread-safe."""

    def __init__(self) -> None:
        self._all: set[Ongoing] = set()
        self._lock = threading.Lock()

    @property
    def count(self) -> int:
        """How much goes on."""
        return len(self._all)

    def begin(self, principal: Principal, statement: ParsedStatement, session: Session) -> Ongoing:
        """Something begins: call this before it is authorised, so that it is seen by `recheck`
        whenever that comes."""
        begun = Ongoing(principal, statement, session)
        with self._lock:
            self._all.add(begun)
        return begun

    def end(self, ongoing: Ongoing) -> None:
        """It is over."""
        with self._lock:
            self._all.discard(ongoing)

    def recheck(self, guard: Guard) -> None:
        """End what the guard does not allow any more. May wait: call it in a thread."""
        with self._lock:
            found = tuple(self._all)
        for ongoing in found:
            try:
                principal = guard.recognise_again(ongoing.principal)
                guard.authorise(principal, ongoing.statement, ongoing.session)
            except RefusedError as error:
                # Not what could not be begun now for another reason.
                if error.status in (401, 403):
                    ongoing.revoke(error)

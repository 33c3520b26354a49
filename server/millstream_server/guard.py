"""Where authentication, authorisation and limits plug in; without them everybody may do all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from millstream.service.text import Piece

Scope = Mapping[str, Any]
"""A connection as ASGI describes it."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking."""

    name: str = "anonymous"
    roles: frozenset[str] = frozenset()


ANONYMOUS = Principal()


class Guard(Protocol):
    """Asked before anything is done; each raises `RefusedError` to say no. They are called in the
    thread of the event loop and must not wait, except `authorise`, which may."""

    def authenticate(self, scope: Scope) -> Principal:
        """Who asks for this path; called for each request, before its body is read."""

    def authorise(self, principal: Principal, statement: Piece) -> None:
        """Whether they may execute the statement."""

    def enter(self, principal: Principal, path: str) -> None:
        """A request begins: it may be one too many."""

    def leave(self, principal: Principal, path: str) -> None:
        """A request that was let in is over."""


class OpenDoor:
    """Everybody may do everything."""

    def authenticate(self, scope: Scope) -> Principal:
        """See `Guard`."""
        return ANONYMOUS

    def authorise(self, principal: Principal, statement: Piece) -> None:
        """See `Guard`."""

    def enter(self, principal: Principal, path: str) -> None:
        """See `Guard`."""

    def leave(self, principal: Principal, path: str) -> None:
        """See `Guard`."""

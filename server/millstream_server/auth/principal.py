"""Principals, and the responses of refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream_server.auth.scram import Verifier
from millstream_server.failures import FORBIDDEN, TOO_MANY, UNAUTHENTICATED, status_of


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a client: its Authorization header, its certificate, or the user whose
    password it has proved by SCRAM, with the verifier of it."""

    authorization: bytes | None = None
    certificate: Mapping[str, Any] | None = None
    proved: tuple[str, Verifier] | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated client. `method`: basic, bearer, mtls, or none if authentication is off.
    `until`: when it expires (epoch seconds), None for never. `by`: its credentials, None without
    authentication."""

    name: str
    roles: frozenset[str] = frozenset()
    method: str = "none"
    until: float | None = None
    by: Credentials | None = field(default=None, repr=False, compare=False)


ANONYMOUS = Principal("anonymous")
"""Everyone, where authentication is off or a path needs none."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal: ksqlDB's number, our code.

    `reason` has more detail, for the audit log only.
    """

    error_code: int
    code: str
    message: str
    hint: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    reason: str = field(default="", repr=False)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return status_of(self.error_code)


def unauthenticated(reason: str, challenges: str) -> Refusal:
    """The same response for every failed authentication, whatever the reason."""
    return Refusal(
        UNAUTHENTICATED,
        "E-AUTH",
        "Authentication is missing or failed.",
        headers={"WWW-Authenticate": challenges},
        reason=reason,
    )


def forbidden(message: str, hint: str = "", *, reason: str = "") -> Refusal:
    """An authenticated principal without permission for this endpoint."""
    return Refusal(FORBIDDEN, "E-FORBIDDEN", message, hint, reason=reason)


def too_many(message: str, retry_after: float, code: str = "E-LIMIT") -> Refusal:
    """A limit is reached; the client may retry after `retry_after` seconds."""
    seconds = max(1, int(-(-retry_after // 1)))
    return Refusal(
        TOO_MANY,
        code,
        message,
        f"Try again in {seconds} s.",
        {"Retry-After": str(seconds)},
    )

"""Who asks, and what is said to those who may not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millstream_server.failures import FORBIDDEN, TOO_MANY, UNAUTHENTICATED, status_of


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client has shown: its Authorization header and its certificate."""

    authorization: bytes | None = None
    certificate: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """Someone who was recognised. `method` is how: basic, bearer, mtls, or none where
    authentication is off. `until`: when that ends (epoch seconds), None for never. `by`: what it
    showed, None where nothing was asked for."""

    name: str
    roles: frozenset[str] = frozenset()
    method: str = "none"
    until: float | None = None
    by: Credentials | None = field(default=None, repr=False, compare=False)


ANONYMOUS = Principal("anonymous")
"""Everyone, where authentication is off or a path needs none."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer instead of the one asked for: ksqlDB's number, our code.

    `reason` says more, for the audit log alone.
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
    """The one answer to all who are not recognised, whatever the reason."""
    return Refusal(
        UNAUTHENTICATED,
        "E-AUTH",
        "Authentication is missing or failed.",
        headers={"WWW-Authenticate": challenges},
        reason=reason,
    )


def forbidden(message: str, hint: str = "", *, reason: str = "") -> Refusal:
    """Someone known, but not allowed to use this endpoint."""
    return Refusal(FORBIDDEN, "E-FORBIDDEN", message, hint, reason=reason)


def too_many(message: str, retry_after: float, code: str = "E-LIMIT") -> Refusal:
    """A limit is reached; after `retry_after` seconds it may be otherwise."""
    seconds = max(1, int(-(-retry_after // 1)))
    return Refusal(
        TOO_MANY,
        code,
        message,
        f"Try again in {seconds} s.",
        {"Retry-After": str(seconds)},
    )

"""Bearer tokens: a valid JWT for this server, signed by one of the known keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from millstream_server.auth.jwks import KeySet
from millstream_server.auth.principal import Principal

SKEW_S = 60
TOKEN_BYTES_MAX = 8192
LIFE_MAX_S = 86_400
REQUIRED = ("exp", "nbf", "iss", "aud", "sub")
HEADERS = frozenset({"alg", "kid", "typ"})
"""The only headers a token may have: no key or address of keys, nothing critical, no zip."""
TYPES = frozenset({"JWT", "AT+JWT", "APPLICATION/AT+JWT"})


class TokenRefusedError(Exception):
    """A token is refused; the text has the reason, for the audit log."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The conditions for accepting a token. `clock`: epoch seconds."""

    keys: KeySet
    issuer: str
    audience: str
    clock: Callable[[], float]
    roles_claim: str = "roles"

    def principal(self, token: str) -> Principal:
        """The principal of a token; raises TokenRefusedError."""
        if len(token) > TOKEN_BYTES_MAX or not token.isascii():
            raise TokenRefusedError("too long, or no ASCII")
        header = self._header(token)
        key = self.keys.key(header["kid"])
        if key is None:
            raise TokenRefusedError("signed by no known key")
        if header["alg"] != key.algorithm:
            raise TokenRefusedError("another algorithm than its key's")
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm],
                options={
                    "require": list(REQUIRED),
                    # Times are checked below with the injected clock.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "enforce_minimum_key_length": True,
                },
                audience=self.audience,
                issuer=self.issuer,
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise TokenRefusedError(type(error).__name__) from error
        return self._checked(claims)

    def _header(self, token: str) -> Mapping[str, str]:
        if token.count(".") != 2:
            raise TokenRefusedError("no signed JWT")
        try:
            header: dict[str, Any] = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise TokenRefusedError("no JWT") from error
        if extra := header.keys() - HEADERS:
            raise TokenRefusedError(f"headers that are not trusted: {sorted(extra)}")
        if not all(isinstance(header.get(name), str) for name in HEADERS):
            raise TokenRefusedError("without alg, kid or typ")
        if header["typ"].upper() not in TYPES:
            raise TokenRefusedError("not of type JWT")
        return header

    def _checked(self, claims: Mapping[str, Any]) -> Principal:
        now = self.clock()
        expires, begins = claims["exp"], claims["nbf"]
        if any(type(value) not in (int, float) for value in (expires, begins)):
            raise TokenRefusedError("times that are no numbers")
        # Written so that NaN fails each of them.
        if not now < expires + SKEW_S:
            raise TokenRefusedError("expired")
        if not begins - SKEW_S <= now:
            raise TokenRefusedError("not valid yet")
        if not 0 < expires - begins <= LIFE_MAX_S:
            raise TokenRefusedError("valid for longer than a day, or never")
        name, roles = claims["sub"], claims.get(self.roles_claim, [])
        if not isinstance(name, str) or not 0 < len(name) <= 256:
            raise TokenRefusedError("no subject")
        if isinstance(roles, str):
            roles = roles.split()
        if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
            raise TokenRefusedError("roles that are no texts")
        return Principal(name, frozenset(roles), "bearer", expires + SKEW_S)

"""Keys, tokens, users and a clock for tests of authentication."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

NOW = 1_700_000_000.0
ISSUER, AUDIENCE = "https://login.example", "millstream"
SECRET = b"0123456789abcdef0123456789abcdef"


@dataclass
class Clock:
    """A clock that the test advances."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


@cache
def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def published(key: Any, algorithm: str, kid: str, **more: str) -> dict[str, Any]:
    family = jwt.algorithms.get_default_algorithms()[algorithm]
    entry = json.loads(family.to_jwk(key))  # type: ignore[attr-defined]
    entry.pop("key_ops", None)
    return {**entry, "kid": kid, "use": "sig", **more}


def jwks() -> dict[str, Any]:
    """The server's keys: an RSA key, an elliptic one, and a shared secret."""
    hmac = {"kty": "oct", "k": b64(SECRET), "kid": "h", "alg": "HS256", "use": "sig"}
    return {
        "keys": [
            published(rsa_key().public_key(), "RS256", "r", alg="RS256"),
            published(ec_key().public_key(), "ES256", "e"),
            hmac,
        ]
    }


def claims(**changed: Any) -> dict[str, Any]:
    """Good claims with some changed; None removes one."""
    good = {
        "sub": "alice",
        "iss": ISSUER,
        "aud": AUDIENCE,
        "nbf": int(NOW) - 10,
        "exp": int(NOW) + 600,
        "roles": ["reader"],
    }
    return {key: value for key, value in {**good, **changed}.items() if value is not None}


def signed(
    payload: dict[str, Any], key: Any = None, algorithm: str = "RS256", **header: Any
) -> str:
    headers = {"kid": "r", **header}
    headers = {name: value for name, value in headers.items() if value is not None}
    raw = json.dumps(payload).encode()
    # Below jwt.encode, which would refuse some of the claims.
    return jwt.api_jws.encode(raw, key or rsa_key(), algorithm, headers)


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def raw_token(header: Any, payload: Any, signature: bytes = b"") -> str:
    return ".".join(
        (b64(json.dumps(header).encode()), b64(json.dumps(payload).encode()), b64(signature))
    )


def bearer(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", b"Bearer " + token.encode("latin-1", "replace"))]


def basic(name: str, password: str) -> list[tuple[bytes, bytes]]:
    text = base64.b64encode(f"{name}:{password}".encode())
    return [(b"Authorization", b"Basic " + text)]

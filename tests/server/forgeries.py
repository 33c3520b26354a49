"""Tokens that must be refused, by their fault."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator

import jwt
from cryptography.hazmat.primitives import serialization

from tests.server.keys import (
    NOW,
    SECRET,
    b64,
    claims,
    ec_key,
    published,
    raw_token,
    rsa_key,
    signed,
)

GOOD_HEADER = {"alg": "RS256", "typ": "JWT", "kid": "r"}
CLAIMS: dict[str, dict[str, object]] = {
    "expired": {"nbf": NOW - 600, "exp": NOW - 61},
    "expired long ago": {"exp": 1},
    "not yet": {"nbf": NOW + 61},
    "no exp": {"exp": None},
    "no nbf": {"nbf": None},
    "no iss": {"iss": None},
    "no aud": {"aud": None},
    "no sub": {"sub": None},
    "other issuer": {"iss": "https://evil.example"},
    "issuer with a slash": {"iss": "https://login.example/"},
    "issuer list": {"iss": ["https://login.example"]},
    "other audience": {"aud": "other"},
    "audience list without": {"aud": ["a", "b"]},
    "audience object": {"aud": {"millstream": True}},
    "empty audience": {"aud": []},
    "exp text": {"exp": str(int(NOW) + 600)},
    "exp bool": {"exp": True},
    "exp null list": {"exp": [NOW + 600]},
    "exp infinite": {"exp": float("inf")},
    "exp nan": {"exp": float("nan")},
    "nbf nan": {"nbf": float("nan")},
    "nbf minus infinite": {"nbf": float("-inf")},
    "for ever": {"exp": NOW + 10 * 365 * 86_400},
    "ends before it begins": {"nbf": NOW + 30, "exp": NOW + 20},
    "sub empty": {"sub": ""},
    "sub very long": {"sub": "a" * 300},
    "roles object": {"roles": {"admin": True}},
    "roles of numbers": {"roles": [1]},
}
HEADERS: dict[str, dict[str, object]] = {
    "jku": {"jku": "https://evil.example/jwks"},
    "x5u": {"x5u": "https://evil.example/cert"},
    "x5c": {"x5c": ["MIIB"]},
    "x5t": {"x5t": "abc"},
    "jwk": {"jwk": published(rsa_key(1).public_key(), "RS256", "r")},
    "crit": {"crit": ["exp"]},
    "zip": {"zip": "DEF"},
    "cty": {"cty": "JWT"},
    "b64": {"b64": False, "crit": ["b64"]},
    "unknown kid": {"kid": "nobody"},
    "kid path": {"kid": "../../dev/null"},
    "kid sql": {"kid": "r' OR '1'='1"},
    "kid empty": {"kid": ""},
    "no kid": {"kid": None},
    "typ other": {"typ": "JOSE"},
    "typ dpop": {"typ": "dpop+jwt"},
    "no typ": {"typ": ""},
}
ALGORITHMS = ("none", "None", "NONE", "nOnE", "", "HS256", "HS384", "HS512", "RS1", "rs256")


def forged() -> Iterator[tuple[str, str]]:
    """All of them, each with its name."""
    for name, changed in CLAIMS.items():
        yield name, signed(claims(**changed))
    for name, header in HEADERS.items():
        yield f"header {name}", signed(claims(), **header)
    yield from _unsigned()
    yield from _confused()
    yield from _broken()


def _unsigned() -> Iterator[tuple[str, str]]:
    for algorithm in ALGORITHMS:
        header = {**GOOD_HEADER, "alg": algorithm}
        yield f"alg {algorithm!r} unsigned", raw_token(header, claims())
        yield f"alg {algorithm!r} with bytes", raw_token(header, claims(), b"x" * 256)
    yield "alg a list", raw_token({**GOOD_HEADER, "alg": ["RS256"]}, claims())
    yield "alg null", raw_token({**GOOD_HEADER, "alg": None}, claims())
    yield "no alg", raw_token({"typ": "JWT", "kid": "r"}, claims())


def _confused() -> Iterator[tuple[str, str]]:
    """Signed rightly, with another key or algorithm than the one that is bound."""
    yield "another rsa key", signed(claims(), rsa_key(1))
    for algorithm in ("RS384", "RS512", "PS256", "PS512"):
        yield f"same key, {algorithm}", signed(claims(), algorithm=algorithm)
    yield "ec key under the rsa kid", signed(claims(), ec_key(), "ES256")
    yield "rsa key under the ec kid", signed(claims(), kid="e")
    yield "secret under the rsa kid", signed(claims(), SECRET, "HS256")
    yield "secret, other digest", signed(claims(), SECRET * 2, "HS512", kid="h")
    yield "rsa under the secret's kid", signed(claims(), kid="h")
    public = rsa_key().public_key()
    for encoding in (serialization.Encoding.PEM, serialization.Encoding.DER):
        raw = public.public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo)
        for kid in ("r", "h"):
            yield f"public key as secret {encoding} {kid}", _hmac(raw, kid)
    for weak in (b"", b"secret", b"\0" * 32, SECRET[:-1]):
        yield f"weak secret {weak[:6]!r}", _hmac(weak, "h")


def _hmac(key: bytes, kid: str) -> str:
    start = raw_token({"alg": "HS256", "typ": "JWT", "kid": kid}, claims()).rpartition(".")[0]
    return f"{start}.{b64(hmac.digest(key, start.encode(), hashlib.sha256))}"


def _broken() -> Iterator[tuple[str, str]]:
    good = signed(claims())
    header, payload, signature = good.split(".")
    admin = b64(json.dumps(claims(roles=["admin"])).encode())
    yield "payload exchanged", f"{header}.{admin}.{signature}"
    yield "signature cut", good[:-8]
    yield "signature missing", f"{header}.{payload}."
    yield "two parts", f"{header}.{payload}"
    yield "four parts", f"{good}.{signature}"
    yield "five parts", f"{good}.a.b"
    yield "a blank inside", good.replace(".", ". ", 1)
    yield "another signature", f"{header}.{payload}.{signed(claims(sub='b')).split('.')[2]}"
    yield "empty", ""
    yield "dots", ".."
    yield "no base64", "a!.b!.c!"
    yield "very long", "a" * 9_000 + ".b.c"
    yield "not ascii", good[:-1] + "é"
    yield "header a list", raw_token([1], claims())
    yield "payload a list", jwt.api_jws.encode(b"[1]", rsa_key(), "RS256", {"kid": "r"})
    yield "payload no json", jwt.api_jws.encode(b"{", rsa_key(), "RS256", {"kid": "r"})
    deep = b"[" * 3_000 + b"]" * 3_000
    yield "payload deep", jwt.api_jws.encode(deep, rsa_key(), "RS256", {"kid": "r"})
    yield "header deep", f"{b64(deep)}.{payload}.{signature}"
    twice = b'{"alg":"none","typ":"JWT","kid":"r","alg":"RS256"}'
    yield "header with two algs", f"{b64(twice)}.{payload}.{signature}"

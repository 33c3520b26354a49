"""The keys that sign tokens: a JWKS file or https address, with bounds on size and time, and pinned
to algorithms.

A key is used with the one algorithm that is bound to it: its own `alg`, else the operator's, else
the only one for its type. HMAC keys are accepted from a file only: a published one would be no
secret.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO, Any
from urllib.parse import urlsplit

import jwt

from millstream.model.errors import StatementError, UnavailableError
from millstream_server.bootstrap.secret import read_private, read_settings

ALGORITHMS = {
    "RS256": "RSA",
    "RS384": "RSA",
    "RS512": "RSA",
    "PS256": "RSA",
    "PS384": "RSA",
    "PS512": "RSA",
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
    "EdDSA": "OKP",
    "HS256": "oct",
    "HS384": "oct",
    "HS512": "oct",
}
_ONLY = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "OKP": "EdDSA"}
_HMAC_BYTES_MIN = {"HS256": 32, "HS384": 48, "HS512": 64}
RSA_BITS_MIN = 2048
BYTES_MAX = 256 << 10
KEYS_MAX = 64
TIMEOUT_S = 5.0
FRESH_S = 300.0
AGAIN_S = 30.0
"""The least time before a failed or forced read is repeated."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key, and the only algorithm it is used with."""

    kid: str
    algorithm: str
    key: Any = field(repr=False)


Keys = Mapping[str, SigningKey]


class KeySet:
    """The keys of one location. The last good set stays when a later one cannot be read."""

    def __init__(self, read: Callable[[], Keys], clock: Callable[[], float]) -> None:
        """`read` returns the current keys or raises MillstreamError; `clock`: monotonic seconds."""
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: Keys = read()
        self._due = clock() + FRESH_S
        self._forced = clock() - AGAIN_S
        self.problem = ""
        """The error of the last read; empty after a successful one."""

    def key(self, kid: str) -> SigningKey | None:
        """The key with this id. An unknown one may be new: the location is read again, at a limited
        rate."""
        now = self._clock()
        if now >= self._due or (kid not in self._keys and now >= self._forced + AGAIN_S):
            self._refresh(now)
        return self._keys.get(kid)

    def _refresh(self, now: float) -> None:
        # One thread reads, the others continue with the current keys.
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._forced = now
            self._due = now + AGAIN_S
            self._keys = self._read()
            self._due = now + FRESH_S
            self.problem = ""
        except (StatementError, UnavailableError) as error:
            self.problem = str(error)
        finally:
            self._lock.release()


def open_keys(place: str, pins: Mapping[str, str], clock: Callable[[], float]) -> KeySet:
    """The keys at a path or an https address. Raises StatementError for invalid keys,
    UnavailableError if the location does not respond."""
    if "://" in place:
        parts = urlsplit(place)
        if parts.scheme != "https" or not parts.hostname or parts.username is not None:
            raise StatementError(
                f"Keys are not read from {parts.scheme}://{parts.hostname}: https only.",
                code="E-CONFIG",
            )
        return KeySet(lambda: read_keys(_fetched(place), pins, public=True), clock)
    return KeySet(lambda: _from_file(place, pins), clock)


def _from_file(path: str, pins: Mapping[str, str]) -> Keys:
    text = read_settings(path)
    keys = read_keys(text, pins, public=False)
    if any(key.algorithm.startswith("HS") for key in keys.values()):
        read_private(path)
    return keys


def read_keys(text: str, pins: Mapping[str, str], *, public: bool) -> Keys:
    """The keys of a JWKS document; raises StatementError for an invalid document, or if a key is
    weak, has no id, or no single algorithm."""
    try:
        entries = json.loads(text)["keys"]
        if not isinstance(entries, list) or not 0 < len(entries) <= KEYS_MAX:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StatementError("The signing keys are no JWKS document.", code="E-CONFIG") from None
    found: dict[str, SigningKey] = {}
    for entry in entries:
        if not isinstance(entry, dict):
            raise _refused("?", "it is no object")
        if entry.get("use", "sig") != "sig":
            continue
        key = _signing_key(entry, pins, public)
        if key.kid in found:
            raise _refused(key.kid, "there are two of this id")
        found[key.kid] = key
    return found


def _signing_key(entry: Mapping[str, Any], pins: Mapping[str, str], public: bool) -> SigningKey:
    kid = entry.get("kid")
    if not isinstance(kid, str) or not kid:
        raise _refused("?", "it has no kid")
    kind = entry.get("crv") if entry.get("kty") == "EC" else entry.get("kty")
    algorithm = pins.get(kid) or entry.get("alg") or _ONLY.get(str(kind))
    if not isinstance(algorithm, str) or ALGORITHMS.get(algorithm) != kind:
        raise _refused(kid, "it names no algorithm that fits; pin one")
    if kid in pins and entry.get("alg", algorithm) != algorithm:
        raise _refused(kid, "its algorithm is not the pinned one")
    if algorithm.startswith("HS") and public:
        raise _refused(kid, "an HMAC key that is published is no secret")
    try:
        key = jwt.PyJWK(dict(entry), algorithm).key
    except Exception as error:  # PyJWT and cryptography raise many kinds.
        raise _refused(kid, "it cannot be read") from error
    if algorithm.startswith("HS") and len(key) < _HMAC_BYTES_MIN[algorithm]:
        raise _refused(kid, "it is too short")
    if kind == "RSA" and key.key_size < RSA_BITS_MIN:
        raise _refused(kid, f"it has less than {RSA_BITS_MIN} bits")
    if hasattr(key, "private_numbers") or hasattr(key, "private_bytes"):
        raise _refused(kid, "it is a private key: give the public one")
    return SigningKey(kid, algorithm, key)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str,
        headers: HTTPMessage, newurl: str,
    ) -> None:  # fmt: skip
        return None


def _fetched(url: str) -> str:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    opener = urllib.request.OpenerDirector()
    for part in (
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        _NoRedirect(),
    ):
        opener.add_handler(part)
    try:
        with opener.open(url, timeout=TIMEOUT_S) as answer:
            raw = _drained(answer)
    except (OSError, ValueError, HTTPException) as error:
        raise UnavailableError("The signing keys cannot be read.", detail=str(error)) from error
    if len(raw) > BYTES_MAX:
        raise UnavailableError(f"The signing keys are larger than {BYTES_MAX} bytes.")
    return raw.decode("utf-8", "replace")


def _drained(answer: HTTPResponse) -> bytes:
    """The whole response, with a total timeout, also for a server that sends single bytes
    slowly."""
    until, raw = time.monotonic() + 2 * TIMEOUT_S, b""
    while len(raw) <= BYTES_MAX and (more := answer.read1(65_536)):
        raw += more
        if time.monotonic() > until:
            raise TimeoutError("the answer is too slow")
    return raw


def _refused(kid: str, why: str) -> StatementError:
    return StatementError(f"The signing key {kid} is refused: {why}.", code="E-CONFIG")
